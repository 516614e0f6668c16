"""What a worker tells the coordinator by itself: a report now and then, and in between how far roots are complete.

The latter only where someone waits for it: for readers that are ``prompt``, and for key groups that are to move. Owned
by the brain, which asks whenever the clock may have something for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace import protocol
from tailrace.reports import WorkerReport
from tailrace.worker.exchange.traffic import LinkMeter
from tailrace.worker.reports import edge_reports, key_group_reports, task_report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tailrace.reports import ProcessReport
    from tailrace.worker.execution.task import SourceSide
    from tailrace.worker.operations.operations import Operations
    from tailrace.worker.uplink.link import Uplink
    from tailrace.worker.worker_state import WorkerState

_NS_PER_S = 1_000_000_000
#: How often the coordinator is told what is complete of sources that someone waits for.
_MARKS_NS = 10_000_000


class Reporter:
    """What is told, and when next."""

    def __init__(
        self,
        worker: WorkerState,
        uplink: Uplink | None,
        operations: Operations,
        peers: dict[int, protocol.Peer],
        of_process: Callable[[], ProcessReport],
        numbers: Iterator[int],
    ) -> None:
        self._worker = worker
        self._uplink = uplink
        self._operations = operations
        self._peers = peers
        #: What a report says of the worker as a whole.
        self._of_process = of_process
        #: Counts the worker's reports.
        self._numbers = numbers
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
        if (self._prompt or self._operations.awaits_older_roots) and now_ns >= self._next_marks_ns:
            self._next_marks_ns = now_ns + _MARKS_NS
            self._tell_marks()
        if now_ns >= self._next_report_ns:
            self._next_report_ns = now_ns + int(self._worker.program.settings.progress_s * _NS_PER_S)
            self.report()

    def report(self) -> None:
        """Tell the coordinator how things stand, and the sources what is complete."""
        worker = self._worker
        commit = not worker.program.durable
        marks = _marks((side for _, side in worker.sources), commit=commit) | _own_marks(worker)
        uplink = self._uplink
        report = WorkerReport(
            next(self._numbers),
            tuple(task_report(task, None if uplink is None else uplink.queue_of_task(task)) for task in worker.tasks),
            edge_reports(worker.tasks, worker.program.settings.edges_reported_max),
            self._links.read(worker.tasks, self._peers),
            key_group_reports(worker.tasks),
            worker.outgoing.sent_bytes,
            worker.outgoing.sent_messages,
            self._of_process(),
        )
        worker.control_out.append(protocol.Report(report, marks))

    def _tell_marks(self) -> None:
        older_roots = self._operations.awaits_older_roots
        sides = [side for _, side in self._worker.sources] if older_roots else self._prompt
        marks = _marks(sides, commit=not self._worker.program.durable) | _own_marks(self._worker)
        if marks != self._marks_told:
            self._marks_told = marks
            self._worker.control_out.append(protocol.Marks(marks))
        if older_roots:
            self._operations.told(marks)


def _marks(sources: Iterable[SourceSide], *, commit: bool) -> dict[int, int]:
    """Per partition the offset below which every root is complete; readers learn theirs, but for durable queries."""
    marks: dict[int, int] = {}
    for source in sources:
        low = source.ledger.low_water()
        for partition, offset in low.items() if commit else ():
            source.readers[partition].commit(offset)
        marks |= low
    return marks


def _own_marks(worker: WorkerState) -> dict[int, int]:
    """The same of roots that tasks make of what they emit by themselves."""
    marks: dict[int, int] = {}
    for own in worker.owns:
        marks |= own.ledger.low_water()
    return marks
