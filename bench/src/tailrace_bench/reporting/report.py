"""Writes a bench down: a table for people, JSON for programs, in the form docs/performance.md describes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from tailrace.metrics import provenance
from tailrace_bench.measurement import machine

from .rows import failed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.console import Console

    from tailrace_bench.measurement.machine import OtherLoad

    from .rows import Row

_PLAIN_FROM = 100


def document(
    bench: str, rows: Sequence[Row], load: OtherLoad, stolen_share: float, versions: Mapping[str, str]
) -> dict[str, Any]:
    """All of a bench's report."""
    return {
        "bench": bench,
        "machine": machine.describe_machine(load) | {"stolen_share": round(stolen_share, 4)},
        "versions": provenance.versions(versions),
        "commit": provenance.commit(),
        "rows": list(rows),
    }


def write_json(path: Path, report: Mapping[str, Any]) -> None:
    """Write the report."""
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def number(value: float | None) -> str:
    """Three digits that mean something."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= _PLAIN_FROM else f"{value:.3g}"


def table(title: str, rows: Sequence[Row]) -> Table:
    """One line per row; what misses its bar stands out."""
    drawn = Table(title=title, box=box.SIMPLE, pad_edge=False)
    for name in ("case", "metric"):
        drawn.add_column(name, no_wrap=True)
    for name in ("value", "unit", "baseline", "its value", "ratio", "spread", "bar", ""):
        drawn.add_column(name, justify="left" if name in {"unit", "baseline", ""} else "right")
    for row in rows:
        bar = "" if row["bar"] is None else f"{'>=' if row['better'] == 'higher' else '<='} {row['bar']:g}"
        verdict = {None: "", True: "ok", False: "[bold red]MISSED[/]"}[row["ok"]]
        drawn.add_row(
            row["case"],
            row["metric"],
            number(row["value"]),
            row["unit"],
            row["baseline"] or "",
            number(row["baseline_value"]),
            "" if row["ratio"] is None else f"{row['ratio']:.3f}",
            f"{row['spread']:.3g}",
            bar,
            verdict,
        )
    return drawn


def show(console: Console, bench: str, rows: Sequence[Row], notes: Sequence[str]) -> None:
    """Print the table, what else was found and what was missed."""
    console.print(table(f"tailrace bench {bench}", rows))
    for note in notes:
        console.print(f"- {note}", highlight=False, markup=False)
    missed = failed(rows)
    judged = sum(row["ok"] is not None for row in rows)
    console.print(f"{judged - len(missed)} of {judged} bars met.", highlight=False)
