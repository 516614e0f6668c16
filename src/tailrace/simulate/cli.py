"""``tailrace simulate SCENARIO``: the simulator's part of the command line; the main command mounts ``simulate``."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path  # noqa: TC003 - typer reads the annotations when the command is built
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from tailrace.metrics.provenance import commit, versions

from .plots import draw
from .scenarios.catalogue import SCENARIOS, by_name

if TYPE_CHECKING:
    from .comparison import ComparisonRow, SimulationReport


def simulate(
    scenario: Annotated[str, typer.Argument(help=f"One of {', '.join(SCENARIOS)}.", metavar="SCENARIO")],
    seeds: Annotated[int, typer.Option(min=1, max=100, help="Runs of each arm; ratios are paired by seed.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="Shorter runs; for a look, not for quoting.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write figures and curves as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the curves to this file (.svg or .png).")] = None,
) -> None:
    """Run a scenario on a virtual clock, with the policies of the runtime."""
    run = by_name(scenario)
    console = Console(width=None if Console().is_terminal else 180)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=Console(stderr=True),
        transient=True,
    )  # fmt: skip
    with bar:
        task = bar.add_task(scenario, total=1.0)
        report = run(
            quick=quick, seeds=seeds, progress=lambda what, share: bar.update(task, completed=share, description=what)
        )
    seeds = report.runs or seeds
    show(console, report, seeds, quick=quick)
    if json_file is not None:
        json_file.write_text(json.dumps(as_json(report, seeds, quick=quick), indent=1) + "\n", encoding="utf-8")
    if plot is not None:
        draw(report, plot, commit())


def show(console: Console, report: SimulationReport, seeds: int, *, quick: bool) -> None:
    """Print a table; behind each figure, the ratio to each baseline."""
    console.print(f"[bold]{report.scenario}[/bold]: {report.about}", highlight=False)
    table = Table("case", "arm", *(column.replace("_", " ") for column in report.columns))
    for row in report.rows:
        table.add_row(row.case, row.arm, *(_cell(row, column) for column in report.columns))
    console.print(table)
    # A baseline's own row leaves itself out, so the longest list has them all, in the order of the brackets.
    baselines = max((list(row.ratios) for row in report.rows), key=len, default=[])
    if baselines:
        console.print(f"In brackets: ratio to {', to '.join(baselines)}; median of {seeds} paired by seed.")
    for row in report.rows:
        for note in row.notes:
            console.print(f"{row.case} / {row.arm}: {note}", highlight=False)
    if quick:
        console.print("A quick run: for a look and not for quoting.")


def _cell(row: ComparisonRow, column: str) -> str:
    value = row.figures.get(column)
    if value is None or math.isnan(value):
        return "-"
    ratios = [found[column] for found in row.ratios.values() if column in found]
    return f"{value:,.3g}" + (f" ({', '.join(f'{ratio:.2f}' for ratio in ratios)})" if ratios else "")


def as_json(report: SimulationReport, seeds: int, *, quick: bool) -> dict[str, Any]:
    """Everything that was printed and drawn, with what it was made by."""
    return {
        "scenario": report.scenario,
        "about": report.about,
        "quick": quick,
        "seeds": seeds,
        "commit": commit(),
        "versions": versions(),
        "rows": [dataclasses.asdict(row) for row in report.rows],
        "panels": [dataclasses.asdict(panel) for panel in report.panels],
    }
