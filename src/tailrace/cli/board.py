"""What a user sees of a running query: a table of its stages on a terminal, one line a second elsewhere. Pure."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

Progress = dict[str, Any]
_PERCENTILES = {"p50": "p50_ms", "p90": "p90_ms", "p99": "p99_ms", "p99.9": "p999_ms"}


def stage_table(progress: Progress) -> Table:
    """One row per stage: how fast it reads and writes, what waits before and behind it, how busy it is."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("stage")
    for name in ("in/s", "out/s", "inbox", "outbox", "busy cores"):
        table.add_column(name, justify="right", min_width=8)
    for stage in progress["stages"]:
        table.add_row(
            " + ".join(stage["operators"]),
            f"{stage.get('readPerSecond', stage['inPerSecond']):,.0f}",
            f"{stage['outPerSecond']:,.0f}",
            "-" if "read" in stage else f"{stage['inbox']:,}",
            f"{stage['outbox']:,}",
            f"{stage['busy']:.2f}",
        )
    return table


def latency_text(latency: dict[str, float], names: tuple[str, ...] = tuple(_PERCENTILES)) -> str:
    """Percentiles in milliseconds; dashes while nothing has completed."""
    if not latency["count"]:
        return "  ".join(f"{name} -" for name in names)
    return "  ".join(f"{name} {_ms(latency[_PERCENTILES[name]])}" for name in names)


def _ms(value: float) -> str:
    return f"{value:.2f} ms" if value < 10 else f"{value:,.0f} ms"  # noqa: PLR2004 - two digits that mean something


def counters_text(progress: Progress) -> str:
    """What has happened so far."""
    workers = progress["workers"]
    text = f"completed {progress['completed']:,}  pending {progress['pending']:,}  replays {progress['replays']:,}"
    if progress["skipped"]:
        text += f"  skipped {progress['skipped']:,}"
    if progress["deadLetters"]:
        text += f"  dead letters {progress['deadLetters']:,}"
    return f"{text}  workers {workers['alive']}/{workers['expected']}"


def stuck_text(progress: Progress) -> str:
    """The user code that has not come back for longest, in a line; empty where all comes back."""
    rows = progress.get("stuck", [])
    if not rows:
        return ""
    first = rows[0]
    more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
    return (
        f"{first['operator']}[{first['task']}] on worker {first['worker']} has not come back for "
        f"{first['seconds']:,.0f} s{more}; query.explain() shows where it is"
    )


def recovery_text(progress: Progress) -> str:
    """The newest recovery in a line: how long it took, and where tasks had their state from; empty without one."""
    rows = progress.get("recoveries", {}).get("newest", [])
    if not rows:
        return ""
    newest = rows[-1]
    if newest["took_ms"] < 0:
        return f"{newest['why']}; going back to checkpoint {newest['epoch']} ..."
    restored = ", ".join(f"{count} from {where}" for where, count in sorted(newest["restored"].items()) if count)
    return f"{newest['why']}; after {_ms(newest['took_ms'])} all went on as of checkpoint {newest['epoch']}" + (
        f" (tasks with state: {restored})" if restored else ""
    )


def board(title: str, progress: Progress) -> Group:
    """All of it, for a live display."""
    stuck, recovery = stuck_text(progress), recovery_text(progress)
    return Group(
        Text(title, style="bold"),
        stage_table(progress),
        Text(f"latency    {latency_text(progress['latency'])}"),
        Text(f"so far     {counters_text(progress)}"),
        *([Text(f"recovery   {recovery}", style="bold yellow")] if recovery else []),
        *([Text(f"stuck      {stuck}", style="bold red")] if stuck else []),
    )


def line(progress: Progress) -> str:
    """One line for logs and pipes."""
    names = ("p50", "p99", "p99.9")
    rate = f"{progress['inputRowsPerSecond']:,.0f} rows/s"
    stuck = stuck_text(progress)
    return f"{rate:>14}  {latency_text(progress['latency'], names)}  {counters_text(progress)}" + (
        f"  stuck: {stuck}" if stuck else ""
    )


def read(progress: Progress) -> int:
    """How many records the sources have read."""
    return sum(stage.get("read", 0) for stage in progress["stages"])


def tails(rows: dict[str, dict[str, float]]) -> list[str]:
    """The tails of several runs, one below the other."""
    width = max(map(len, rows)) + 2
    head = f"  {'':{width}}" + "".join(f"{name:>10}" for name in _PERCENTILES)
    lines = [
        f"  {name:{width}}"
        + "".join(f"{_ms(latency[key]) if latency['count'] else '-':>10}" for key in _PERCENTILES.values())
        for name, latency in rows.items()
    ]
    return [head, *lines]
