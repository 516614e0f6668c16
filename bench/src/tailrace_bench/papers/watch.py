"""``tailrace bench-check`` flags ratios that fell by over a fifth against those committed under bench/baseline.

A quick subset of the benches, chosen so that it takes a few minutes and touches each room that is measured. ``--write``
makes what was found the new baseline. A ratio is an arm against its own baseline in the same run, so a slower machine
does not look like a slower Tailrace; what is noisy here is noisy there, which the repeats in the file tell.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from .cli import Watch
from .errors import WatchError
from .jobs import Job
from .runner import polite_end, run_all
from .store import Store, source_digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BASELINES = Path("bench/baseline")
#: About how long each takes in seconds.
WATCHED = {
    Job("bench", "balance", "b"): 70.0,
    Job("bench", "sharedqueue", "micro"): 75.0,
    Job("bench", "timeout", "exclamation"): 80.0,
    Job("bench", "ring", "10KB@1000/s"): 30.0,
    Job("simulate", "slots"): 15.0,
}
FALL_MAX = 0.20


@dataclass(frozen=True)
class Change:
    """A ratio then and now; ``worse`` is by which part of it, in the direction that counts."""

    bench: str
    case: str
    metric: str
    baseline: str
    before: float
    now: float
    better: str

    @property
    def worse(self) -> float:
        """Above 0 it fell: a rate that shrank, or a latency that grew."""
        return 1 - self.now / self.before if self.better == "higher" else self.now / self.before - 1

    @property
    def flagged(self) -> bool:
        """Whether it fell too far."""
        return self.worse > FALL_MAX


def bench_check(
    write: Annotated[bool, typer.Option("--write", help="Make what is found the new baseline.")] = False,
    folder: Annotated[Path, typer.Option(help="Where the baselines are.", metavar="FOLDER")] = BASELINES,
) -> None:
    """Run a few quick benches; the exit code is 1 if a ratio fell by over 20 % against the committed one."""
    console = Console(width=None if Console().is_terminal else 160)
    store = Store(folder, source_digest(), quick=True)
    before = {job: store.load(job, any_code=True) for job in WATCHED}
    if not write and not any(before.values()):
        raise WatchError(f"There are no baselines under {folder}.", "tailrace bench-check --write makes them.")
    with tempfile.TemporaryDirectory(prefix="tailrace-watch-") as aside:
        # Without --write the baselines stay as they are.
        into = store if write else Store(Path(aside), source_digest(), quick=True)
        with polite_end(), Watch(console, list(WATCHED), WATCHED.__getitem__) as watch:
            found = run_all(list(WATCHED), into, WATCHED.__getitem__, quick=True, fresh=True, tell=watch.tell)
    for job, outcome in found.items():
        if outcome.result is None:
            console.print(f"{job.text}: {outcome.reason}", highlight=False, markup=False)
    pairs = [(job, old["document"], outcome.result["document"]) for job, outcome in found.items()
             if (old := before[job]) is not None and outcome.result is not None]  # fmt: skip
    changed = [change for job, old, new in pairs for change in changes(job.text, old, new)]
    show(console, changed)
    if any(change.flagged for change in changed) and not write:
        raise typer.Exit(1)


def ratios(document: Mapping[str, Any]) -> dict[tuple[str, str, str], tuple[float, str]]:
    """(case, metric, baseline) -> ratio and which direction is better, of a bench or a simulation."""
    found = {}
    for row in document["rows"]:
        if "figures" in row:
            for baseline, values in row["ratios"].items():
                for metric, value in values.items():
                    lower = metric not in {"jain", "throughput_per_s"}
                    found[f"{row['case']},{row['arm']}", metric, baseline] = value, "lower" if lower else "higher"
        elif row["ratio"]:
            found[row["case"], row["metric"], row["baseline"] or ""] = row["ratio"], row["better"]
    return found


def changes(bench: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """What both have."""
    old, new = ratios(before), ratios(now)
    return [
        Change(bench, *key, old[key][0], new[key][0], old[key][1]) for key in old if key in new and old[key][0] > 0
    ]  # fmt: skip


def show(console: Console, changed: Sequence[Change]) -> None:
    """What fell, and how many did not."""
    fallen = [change for change in changed if change.flagged]
    if fallen:
        table = Table("bench", "case", "metric", "against", "ratio before", "now", "worse by")
        for each in fallen:
            table.add_row(
                each.bench, each.case, each.metric, each.baseline, f"{each.before:.3f}", f"{each.now:.3f}",
                f"{each.worse:.0%}",
            )  # fmt: skip
        console.print(table)
    console.print(f"{len(fallen)} of {len(changed)} ratios fell by over {FALL_MAX:.0%}.", highlight=False)
