"""What a worker tells the coordinator by itself: a report now and then, and in between how far roots are complete.

The latter only where someone waits for it: for readers that are ``prompt``, and for key groups that are to move. Owned
by the brain, which asks whenever the clock may have something for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace import protocol
from tailrace.worker.exchange.traffic import LinkMeter
from tailrace.worker.snapshot import take_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tailrace.worker.exchange.delivery import Delivery
    from tailrace.worker.execution.task import SourceSide
    from tailrace.worker.migration.key_mover import KeyMover
    from tailrace.worker.worker_state import WorkerState

_NS_PER_S = 1_000_000_000
#: How often the coordinator is told what is complete of sources that someone waits for.
_MARKS_NS = 10_000_000


class Reporter:
    """What is told, and when next."""

    def __init__(
        self,
        worker: WorkerState,
        delivery: Delivery,
        keys: KeyMover,
        peers: dict[int, protocol.Peer],
        of_worker: Callable[[], dict[str, Any]],
    ) -> None:
        self._worker = worker
        self._delivery = delivery
        self._keys = keys
        self._peers = peers
        #: What a report says of the worker as a whole.
        self._of_worker = of_worker
        self._links = LinkMeter(worker.slot)
        #: Sources of whose progress the coordinator hears between reports.
        self._prompt: list[SourceSide] = []
        self._marks_told: dict[int, int] = {}
        self._next_marks_ns = 0
        self._next_report_ns = 0

    def refresh(self) -> None:
        """Look at the tasks again: they were deployed, or some have moved."""
        self._links.begin(self._worker.tasks)
        sides = [side for _, side in self._worker.sources]
        self._prompt = [side for side in sides if any(each.prompt for each in side.readers.values())]

    def on_time(self, now_ns: int) -> None:
        """Tell what is due."""
        if (self._prompt or self._keys.ripening) and now_ns >= self._next_marks_ns:
            self._next_marks_ns = now_ns + _MARKS_NS
            self._tell_marks()
        if now_ns >= self._next_report_ns:
            self._next_report_ns = now_ns + int(self._worker.program.settings.progress_s * _NS_PER_S)
            self.report()

    def report(self) -> None:
        """Tell the coordinator how things stand, and the sources what is complete."""
        worker = self._worker
        marks = _marks(side for _, side in worker.sources)
        snapshot = take_snapshot(worker.tasks, worker.outgoing, worker.program.settings.edges_reported_max)
        snapshot["links"] = self._links.read(worker.tasks, self._peers)
        snapshot |= self._of_worker()
        if self._delivery.uplink is not None:
            self._delivery.uplink.tell(snapshot)
        worker.control_out.append(protocol.Report(snapshot, marks))

    def _tell_marks(self) -> None:
        ripening = self._keys.ripening
        marks = _marks((side for _, side in self._worker.sources) if ripening else self._prompt)
        if marks != self._marks_told:
            self._marks_told = marks
            self._worker.control_out.append(protocol.Marks(marks))
        if ripening:
            self._keys.told(marks)


def _marks(sources: Iterable[SourceSide]) -> dict[int, int]:
    """Per partition the offset below which every root is complete; readers learn theirs."""
    marks: dict[int, int] = {}
    for source in sources:
        low = source.ledger.low_water()
        for partition, offset in low.items():
            source.readers[partition].commit(offset)
        marks |= low
    return marks
