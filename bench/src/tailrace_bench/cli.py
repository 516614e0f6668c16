"""``tailrace bench NAME``: the benches' part of the command line; the main command mounts ``bench``."""

from __future__ import annotations

import signal
import sys
from pathlib import Path  # noqa: TC003 - typer reads the annotations when the command is built
from typing import Annotated

import typer
from rich.console import Console

from .bench import BenchRequest
from .measurement import machine
from .registry import NAMES, check_name, find
from .reporting import report
from .reporting.rows import failed

EXIT_TERMINATED = 143


def bench(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(NAMES)}.", metavar="NAME")],
    quick: Annotated[bool, typer.Option("--quick", help="Shorter windows; for a look, not for quoting.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the rows as JSON.", metavar="FILE")] = None,
    only: Annotated[str | None, typer.Option(help="Run one case, such as rate=500.", metavar="CASE")] = None,
    force: Annotated[bool, typer.Option("--force", help="Run on a loaded machine too.")] = False,
    plots: Annotated[Path | None, typer.Option(help="Write plots to this folder.", metavar="FOLDER")] = None,
) -> None:
    """Measure Tailrace beside its baselines; the exit code is 1 when a bar is missed."""
    check_name(name)
    console = Console(width=None if Console().is_terminal else 180)
    load = machine.sample_load()
    machine.check_quiet(load, force=force)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_TERMINATED))  # a polite end still ends what was started
    stolen = machine.StolenTime()
    found = find(name).run(BenchRequest(console, quick, only, plots))
    stolen_share = stolen.share()
    notes = [
        *found.notes,
        f"Meanwhile the host took {stolen_share:.1%} of a core from this machine.",
        *(["A quick run: short windows, for a look and not for quoting."] if quick else []),
    ]
    report.show(console, name, found.rows, notes)
    if json_file is not None:
        report.write_json(json_file, report.document(name, found.rows, load, stolen_share, found.versions))
    if failed(found.rows):
        raise typer.Exit(1)
