"""The command ``tailrace``: what it can be asked, and how errors look. The modules beside this one do the work.

A TailraceError is printed as its message and hint and exits with its class's code; a stack trace is shown only with
``--debug``. Commands import what they need when they are called, so that ``--help`` and mistyped options answer fast.
"""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.errors import TailraceError
from tailrace.version import __version__

from . import extensions

if TYPE_CHECKING:
    from collections.abc import Callable

EXIT_UNEXPECTED = 70
_DEBUG = "--debug"
#: For commands that live in other rooms: their arguments, --help included, are handed over as they are.
_HANDED_OVER = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

app = typer.Typer(
    name="tailrace",
    help="Record-at-a-time stream processing in Python on Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"tailrace {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    ctx: typer.Context,
    debug: Annotated[bool, typer.Option(_DEBUG, help="Show stack traces and all that Spark prints.")] = False,
    version: Annotated[  # noqa: ARG001 - its callback acts on it
        bool, typer.Option("--version", help="Print the version and leave.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    ctx.obj = debug


@app.command()
def demo(
    ctx: typer.Context,
    seconds: Annotated[float, typer.Option(min=1, max=3600, help="How long sentences come, in each of two runs.")] = 10,
    rate: Annotated[float, typer.Option(min=1, max=1_000_000, help="Sentences per second, whatever happens.")] = 800,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Worker processes.")] = 3,
) -> None:
    """Count words on an embedded Spark: by the baselines and by auto with a slow worker, then one worker is killed."""
    from .demo import DemoOptions  # noqa: PLC0415
    from .demo import demo as show  # noqa: PLC0415

    raise typer.Exit(show(DemoOptions(seconds, rate, workers, debug=ctx.obj)))


@app.command()
def run(
    ctx: typer.Context,
    target: Annotated[str, typer.Argument(metavar="FILE[:NAME]", help="A file with a topology called flow, or NAME.")],
    master: Annotated[str | None, typer.Option(help="Spark master; left out, an embedded local-cluster.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, max=10_000, help="Workers; one per core if left out.")] = None,
    policy: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="As in tr.Policy; repeatable.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="As in tr.Settings; repeatable.")
    ] = None,
) -> None:
    """Run the topology of a Python file.

    It runs until its sources end; Ctrl-C stops reading and finishes what was read.
    """
    from .run import RunOptions  # noqa: PLC0415
    from .run import run as run_file  # noqa: PLC0415

    raise typer.Exit(run_file(RunOptions(target, master, workers, policy or (), settings or (), debug=ctx.obj)))


@app.command()
def doctor() -> None:
    """Tell what this machine has of what Tailrace needs."""
    from .doctor import doctor as look  # noqa: PLC0415
    from .doctor import report  # noqa: PLC0415

    findings = look()
    for finding in findings:
        typer.echo(f"{'MISSING' if finding.need else 'ok':8}{finding.name:15}{finding.text}")
    report(findings)


@app.command()
def state(
    path: Annotated[str, typer.Argument(help="The checkpoint: a folder, or an address such as s3://bucket/words.")],
    epoch: Annotated[
        int | None, typer.Option(help="Which epoch to show; the newest that is whole if left out.")
    ] = None,
    operator: Annotated[str | None, typer.Option(help="Show keys and values of this operator.")] = None,
    key: Annotated[str | None, typer.Option(help="Only this key, as it is shown.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Keys to show.")] = 20,
    check: Annotated[
        bool, typer.Option("--check", help="Read every object of every epoch, to see that it is whole.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Look into a checkpoint: its epochs, operators, keys and sizes."""
    from .state import StateOptions, show_state  # noqa: PLC0415

    show_state(StateOptions(path, epoch, operator, key, limit, check=check, as_json=as_json))


@app.command(context_settings=_HANDED_OVER)
def place(ctx: typer.Context) -> None:
    """Show where a policy would place the tasks of a topology."""
    from tailrace.placement.command.cli import place as place_tasks  # noqa: PLC0415

    _hand_over("place", place_tasks, ctx.args)


@app.command(context_settings=_HANDED_OVER)
def simulate(ctx: typer.Context) -> None:
    """Try policies in scenarios on a virtual clock."""
    from tailrace.simulate.cli import simulate as run_scenario  # noqa: PLC0415

    _hand_over("simulate", run_scenario, ctx.args)


@app.command(context_settings=_HANDED_OVER)
def lever(ctx: typer.Context) -> None:
    """Look into Structured Streaming queries: who straggles, and why."""
    from tailrace.lever.cli import app as lever_app  # noqa: PLC0415

    mounted = _plain_typer()
    mounted.add_typer(lever_app, name="lever")
    mounted(args=["lever", *ctx.args], prog_name="tailrace")


def _mount(name: str, summary: str) -> None:
    """Add a command of the second distribution, installed or not."""

    @app.command(name, help=summary, context_settings=_HANDED_OVER)
    def brought(ctx: typer.Context) -> None:
        _hand_over(name, extensions.load(name), ctx.args)


for _name, _summary in extensions.summaries().items():
    _mount(_name, _summary)


def _hand_over(name: str, command: Callable[..., None], args: list[str]) -> None:
    mounted = _plain_typer()
    mounted.command()(command)
    mounted(args=args, prog_name=f"tailrace {name}")


def _plain_typer() -> typer.Typer:
    return typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


def main(argv: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    debug = _DEBUG in args
    if debug:  # people add it at the end of what they typed before
        args = [_DEBUG, *(arg for arg in args if arg != _DEBUG)]
    try:
        app(args=args, prog_name="tailrace")
    except Exception as error:  # noqa: BLE001 - the last place where a mistake of ours can be made readable
        _leave(error, debug=debug)


def _leave(error: Exception, *, debug: bool) -> None:
    """Print an error as people read it and exit with its code."""
    if debug:
        traceback.print_exception(error)
    if isinstance(error, TailraceError):
        typer.echo(f"{type(error).__name__}: {error.message}", err=True)
        if error.hint:
            typer.echo(error.hint, err=True)
        sys.exit(error.exit_code)
    typer.echo(f"Unexpected {type(error).__name__}: {error}", err=True)
    typer.echo(f"This is a mistake in Tailrace; tailrace {_DEBUG} ... shows where.", err=True)
    sys.exit(EXIT_UNEXPECTED)
