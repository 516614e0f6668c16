"""Runs arms in turn, round after round, on one Spark application and a host made slow.

Called by the parts of the benchmark. The application stays alive for the whole run, so that arms can be interleaved
without starting Spark again; their order is drawn again for every round, so that no arm always follows the same other.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import sys
import tempfile
import threading
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from tailrace.lever.explain.eventlog import read_event_log

from .cluster import HOSTS, standalone
from .driver import Driver
from .rows import Round
from .slow import Slowdown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .arms import LeverArm, Size
    from .workloads import BatchLoad

SLOW_HOST, SLOW_FACTOR = HOSTS[-1], 4.0


class Testbed:
    """The cluster, its application and the slow host."""

    def __init__(self, driver: Driver, slowdown: Slowdown, work: Path) -> None:
        self._driver = driver
        self.slowdown = slowdown
        self._work = work
        self.events = work / "events"

    def batches(self, case: str, arm: LeverArm, load: BatchLoad, count: int, *, keep: bool = False) -> dict[str, Any]:
        """Run ``count`` batches of an arm; its query and what Lever learned go on from the last call.

        With ``keep`` the query is left running for the next call.
        """
        checkpoint = self._work / f"{case}-{arm.name}"
        return self._driver.ask(
            case=case,
            plan=arm.plan,
            state=arm.state,
            live=arm.live,
            load=asdict(replace(load, partitions=load.partitions * arm.partitions_per_core)),
            checkpoint=str(checkpoint),
            batches=count,
            keep=keep,
        )


@contextlib.contextmanager
def testbed() -> Iterator[Testbed]:
    """Start everything; stop everything."""
    with contextlib.ExitStack() as stack:
        # Cleaning up takes seconds; an impatient SIGTERM meanwhile must not leave half of the cluster behind.
        stack.callback(_on_sigterm, signal.getsignal(signal.SIGTERM))
        work = Path(tempfile.mkdtemp(prefix="tailrace-lever-bench-"))
        stack.callback(shutil.rmtree, work, ignore_errors=True)
        (work / "events").mkdir()
        master = stack.enter_context(standalone())
        driver = Driver(master, work / "events")
        stack.callback(driver.close)
        driver.answer()
        slowdown = stack.enter_context(Slowdown())
        stack.callback(_on_sigterm, signal.SIG_IGN)
        yield Testbed(driver, slowdown, work)


def _on_sigterm(handler: Any) -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def measure(
    running: Testbed, case: str, size: Size, arms: Sequence[LeverArm] = (), *, name: str = "", slow: bool = True
) -> dict[str, list[Round]]:
    """Run all arms round after round; the first batches of each turn warm up and are not counted.

    Runs of one case under another ``name`` have queries of their own and learn from the beginning.
    """
    name, arms = name or case, arms or size.arms
    found: dict[str, list[Round]] = {arm.name: [] for arm in arms}
    batches: dict[str, dict[str, set[int]]] = {arm.name: {} for arm in arms}
    running.slowdown.set({SLOW_HOST: SLOW_FACTOR} if slow else {})
    for number in range(0 if size.warm_up else 1, size.rounds + 1):
        for arm in Random(number).sample(arms, len(arms)):  # noqa: S311  an order, nothing secret
            tell(f"{name}: round {number} of {size.rounds}, {arm.name}")
            # Round 0 warms up executors, compilers and the planners' memory.
            count = size.warm + size.batches if number else size.warm_up
            answer = running.batches(case, replace(arm, name=f"{name}-{arm.name}"), size.load, count)
            if number:
                measured = answer["batches"][size.warm :]
                found[arm.name].append(Round([float(ms) for _, ms in measured]))
                batches[arm.name].setdefault(answer["query"], set()).update(batch for batch, _ in measured)
    running.slowdown.set({})
    _add_stages(running.events, found, batches)
    return found


def _add_stages(events: Path, found: dict[str, list[Round]], batches: dict[str, dict[str, set[int]]]) -> None:
    stages = [stage for log in sorted(events.iterdir()) for stage in read_event_log(log)]
    for arm, wanted in batches.items():
        found[arm][0].stages = [s for s in stages if s.query in wanted and s.batch in wanted[s.query]]


def tell(line: str) -> None:
    """Show how far the run is; its rows alone go to standard output."""
    sys.stderr.write(line + "\n")
