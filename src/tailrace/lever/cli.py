"""``tailrace lever ...``: the part of the command line that belongs to Lever; the main command mounts ``app``."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003  typer reads the annotations at run time
from typing import Annotated

import typer

from .explain import explain as explain_log
from .plans import DEFAULT_PLAN

app = typer.Typer(help="Pre-scheduling of micro-batches.", no_args_is_help=True)


@app.callback()
def lever() -> None:
    """Pre-scheduling of micro-batches."""


@app.command()
def explain(
    eventlog: Annotated[Path, typer.Argument(help="Event log: a file, a rolling folder, or a table of tasks (CSV).")],
    plan: Annotated[str, typer.Option(help="The plan to replay the batches through.")] = DEFAULT_PLAN,
    plot: Annotated[Path | None, typer.Option(help="Write plots to this file (needs matplotlib).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print figures as JSON.")] = False,
) -> None:
    """Say which executors straggle in which stages, how persistently, and what pre-scheduling would have gained."""
    report = explain_log(eventlog, plan)
    typer.echo(json.dumps(report.as_dict(), indent=1) if as_json else report.text())
    if plot is not None:
        from .explain.plots import draw  # noqa: PLC0415  matplotlib is loaded only when asked for

        typer.echo(f"Plots: {draw(report, plot)}", err=True)
