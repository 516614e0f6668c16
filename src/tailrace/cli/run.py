"""``tailrace run``: a user's file on an embedded Spark or on a master. Results go to stdout, all else to stderr."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console

from tailrace.start import start
from tailrace.topology.validate import check_ends

from . import board
from .errors import MasterError
from .hosting import hosted
from .load import load_flow
from .options import policy_from, settings_from
from .watching import EXIT_INTERRUPTED, WatchEnd, say, step, watch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.coordinator.query import Query

_POLL_S = 0.2


@dataclass(frozen=True)
class RunOptions:
    """The options of the command."""

    target: str
    master: str | None = None
    workers: int | None = None
    policy: Sequence[str] = ()
    settings: Sequence[str] = ()
    debug: bool = False


def run(asked: RunOptions) -> int:
    """Run the topology until it ends or is interrupted, and return the exit code."""
    console = Console(stderr=True, highlight=False)
    policy, settings = policy_from(asked.policy), settings_from(asked.settings)
    flow = load_flow(asked.target)
    flow.validate()  # before Spark takes its seconds to start
    check_ends(flow)
    _show_logs()
    from tailrace.spark.session import default_workers  # noqa: PLC0415 - after what can be refused without Spark

    workers = asked.workers or default_workers()
    with contextlib.ExitStack() as stack:
        with step(console, f"Starting Spark ({asked.master or 'on this machine'}) for {workers} workers ..."):
            spark = stack.enter_context(_session(asked, workers))
        with step(console, f"Starting the workers of {flow.name!r} ..."):
            query = start(flow, spark, workers=workers, policy=policy, settings=settings)
        end = watch(query, console, lambda progress: say(console, board.line(progress)), _POLL_S)
        with step(console, "Ending Spark ..."):
            stack.close()
    say(console, last_words(query))
    return 0 if end is WatchEnd.BY_ITSELF else EXIT_INTERRUPTED


@contextlib.contextmanager
def _session(asked: RunOptions, workers: int) -> Iterator[Any]:
    """The session that the file has made, if it has, else one for this command."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    theirs = SparkSession.getActiveSession()
    if theirs is None:
        with hosted(workers, asked.master, debug=asked.debug) as spark:
            yield spark
    elif asked.master is not None:
        raise MasterError(
            f"--master {asked.master} cannot be used: the file has started Spark on {theirs.sparkContext.master}.",
            "Leave --master out, or start Spark under if __name__ == '__main__' only.",
        )
    else:
        yield theirs


def _show_logs() -> None:
    """Show what operators log; the runtime brings it here under the loggers tailrace.operator.NAME."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
    logger = logging.getLogger("tailrace")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)


def last_words(query: Query) -> str:
    """Sum a run up in a line."""
    progress, latency = query.lastProgress, query.latency
    if progress is None:
        return "Ended before the first report."
    return f"Ended: read {board.read(progress):,}  {board.counters_text(progress)}  {board.latency_text(latency)}"
