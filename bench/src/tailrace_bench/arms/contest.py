"""Opens the arms of a comparison, keeps them up, closes and checks them, and leaves nothing behind.

``comparison`` measures between ``open`` and ``close``. Spark is started once for all arms that it hosts.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.config import Policy
from tailrace.spark.session import embedded, end_embedded, end_jvm
from tailrace.testing.processes import ProcessHost
from tailrace_bench.errors import PeerMissingError

from . import bytewax
from .bare import BareArm
from .bytewax import BytewaxArm
from .engine import SETTINGS, WORKERS, EngineArm

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from .base import Arm

TRACKED, UNTRACKED, PROCESSES, BARE = "spark,tracked", "spark,untracked", "processes,tracked", "bare_loop"


class Contest:
    """The arms of one bench."""

    def __init__(self, kind: str, say: Callable[[str], None], *, hosted_at_once: int = 2) -> None:
        self.kind = kind
        self.folder = Path(tempfile.mkdtemp(prefix="tailrace-bench-"))
        self.arms: list[Arm] = []
        #: Why there is no Bytewax to compare with, if so.
        self.peer_missing = ""
        self.peer_version = ""
        self._say = say
        #: How many arms Spark has to have slots for.
        self._hosted_at_once = hosted_at_once
        self._python: Path | None = None
        self._spark: Any = None
        self._log = (self.folder / "spark.log").open("ab")

    # -- opening -------------------------------------------------------------------------------------------------

    def find_peer(self) -> None:
        """Get Bytewax; without it the rest is measured all the same."""
        try:
            self._python = bytewax.environment(self._say)
            self.peer_version = bytewax.version(self._python)
        except PeerMissingError as error:
            self.peer_missing = error.message

    def open(self, arm: Arm) -> None:
        """Start an arm; it is closed with the contest."""
        self.arms.append(arm)
        arm.open()

    def engine(self, name: str, *, label: str = "", **options: Any) -> EngineArm:
        """Open Tailrace, hosted and tracked as the name says; ``label`` is for benches that open several of a name."""
        if name == UNTRACKED:
            options["policy"] = Policy(replay="off")
        host = self.processes_host if name == PROCESSES else self.spark_host
        arm = EngineArm(label or name, self.kind, self.folder, host, **options)
        self.open(arm)
        return arm

    def bare(self) -> BareArm:
        """Open the bare loop."""
        arm = BareArm(self.kind, self.folder)
        self.open(arm)
        return arm

    def peers(self, *, timed: bool = False, tuned: bool = False) -> list[BytewaxArm]:
        """Open Bytewax in all its settings, or in none if it is not there.

        With times the batch is only a bound, and what is tuned works in batches: the largest stands for all there.
        """
        if self._python is None:
            return []
        batches = bytewax.BATCHES[-1:] if timed or tuned else bytewax.BATCHES
        found = [
            BytewaxArm(self.kind, self.folder, self._python, shape, batch, timed=timed, tuned=tuned)
            for shape in bytewax.SHAPES
            for batch in batches
        ]
        for arm in found:
            self.open(arm)
        return found

    def spark_host(self) -> Any:
        """Hosts workers on the bench's Spark, which is started for the first of them."""
        from tailrace.spark.host import SparkHost  # noqa: PLC0415 - only where Spark is there

        if self._spark is None:
            self._say("Starting Spark")
            logging.getLogger("py4j").setLevel(logging.CRITICAL)
            self._spark = embedded(self._hosted_at_once * WORKERS, self._log)
            # PySpark's own handler cancels the jobs that host the workers: after Ctrl-C nothing could end in order.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return SparkHost(self._spark, WORKERS, SETTINGS)

    @staticmethod
    def processes_host() -> ProcessHost:
        """Hosts workers as plain processes."""
        return ProcessHost(WORKERS)

    # -- closing -------------------------------------------------------------------------------------------------

    def retire(self, arm: Arm) -> None:
        """Close an arm that is no longer needed and hold its results against those expected."""
        self.arms.remove(arm)
        arm.check(arm.close())

    def finish(self) -> None:
        """Close and check all arms."""
        for arm in list(self.arms):
            self.retire(arm)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            stack.callback(self._log.close)
            stack.callback(self._end_spark)
            for arm in self.arms:
                stack.callback(arm.abort)

    def _end_spark(self) -> None:
        if self._spark is not None:
            end_embedded(self._spark)
            end_jvm()
