"""What must always hold in a worker, checked between two calls of its brain by every deterministic test.

Asked through ``WorkerBrain.validate``; touches nothing. What would take long is looked at now and then only, where much
waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from tailrace.program.errors import InvariantError
from tailrace.receiving.inbox import Inbox

if TYPE_CHECKING:
    from tailrace.worker.build import Site
    from tailrace.worker.checkpoint.cutter import Cutter
    from tailrace.worker.execution.task import SourceSide, Task
    from tailrace.worker.operations.operations import Operations
    from tailrace.worker.worker_state import WorkerState

#: So many batches or roots are counted at every look, more at one look in so many.
_COUNTED_MAX = 32
_COUNTED_EVERY = 64


class WorkerInvariants:
    """What holds in one deployed half of a worker."""

    def __init__(self, worker: WorkerState, site: Site, operations: Operations, cutter: Cutter | None) -> None:
        self._worker = worker
        self._site = site
        self._operations = operations
        self._cutter = cutter
        self._looks = 0
        #: The low-water mark of each partition at the last look.
        self._marks: dict[int, int] = {}

    def check(self) -> None:
        """Raise ``InvariantError`` where something does not hold."""
        self._looks += 1
        worker, active = self._worker, self._operations.active
        if not active:
            self._check_tasks()
        ready = {id(task) for task in worker.ready}
        if len(ready) != len(worker.ready):
            self._fail("a task is queued twice")
        for task in worker.tasks:
            cut = self._cutter is not None and self._cutter.awaits(task)
            self._check_task(task, active=active or cut, ready=id(task) in ready)
        for number, box in worker.outbound.items():
            under_way = box.sent - box.consumed
            if not 0 <= under_way < box.window + max(1, box.taken):
                self._fail(f"channel {number} has {under_way} tuples under way, and its window is {box.window}")
            if box.paused and not active:
                self._fail(f"channel {number} is held, and no operation is under way")
            if number != box.channel:
                self._fail(f"outbox {box.channel} is filed under {number}")
        for number, (_, channel) in worker.inbound.items():
            if not channel.received >= channel.consumed >= channel.reported or channel.stale < 0:
                self._fail(
                    f"of channel {number} {channel.received} tuples were received, {channel.consumed} consumed, "
                    f"{channel.reported} reported, {channel.stale} are of before"
                )
            if number != channel.id:
                self._fail(f"channel {channel.id} is filed under {number}")
        marks: dict[int, int] = {}
        for _, source in worker.sources:
            marks |= self._check_source(source, active=active)
        self._marks = marks  # a source that leaves, is lost elsewhere and comes back begins where its successor did

    def _fail(self, what: str) -> NoReturn:
        raise InvariantError(
            f"Worker {self._worker.slot}: {what}.", "This is a fault in Tailrace; please tell us how it came about."
        )

    def _counts(self, items: int) -> bool:
        return items <= _COUNTED_MAX or self._looks % _COUNTED_EVERY == 0

    def _check_tasks(self) -> None:
        """Between operations a worker has the tasks that the placement gives it, and its ways lead where tasks are."""
        worker, site = self._worker, self._site
        wanted = {
            (stage, task)
            for stage, slots in enumerate(site.placement)
            for task, slot in enumerate(slots)
            if slot == worker.slot
        }
        found = {(task.stage.id, task.index) for task in worker.tasks}
        if found != wanted or len(worker.tasks) != len(wanted):
            self._fail(f"the placement gives it the tasks {sorted(wanted)}, and it has {sorted(found)}")
        for task in worker.tasks:
            for number, outlet in task.outlets.items():
                target = worker.program.plan.edges[number].dst_stage
                if [box.slot for box in outlet.boxes] != site.queues.get(target, site.placement[target]):
                    self._fail(f"edge {number} of {task.name}[{task.index}] does not lead to where its tasks are")

    def _check_task(self, task: Task, *, active: bool, ready: bool) -> None:
        if task.in_flight != len(task.pieces):
            self._fail(f"{task.name}[{task.index}] has {len(task.pieces)} pieces out, not {task.in_flight}")
        if ready and not task.queued:
            self._fail(f"{task.name}[{task.index}] is among those that are ready and does not know")
        if task.queued and not ready and not active:
            self._fail(f"{task.name}[{task.index}] stands still, and no operation is under way")
        inbox = task.inbox
        if isinstance(inbox, Inbox) and self._counts(len(inbox.waiting)):
            waiting = sum([len(batch.values) for _, batch, _ in inbox.waiting])
            if waiting != inbox.tuples:
                self._fail(f"{waiting} tuples wait for {task.name}[{task.index}], not {inbox.tuples}")

    def _check_source(self, source: SourceSide, *, active: bool) -> dict[int, int]:
        if source.paused and not active:
            self._fail("a source is held, and no operation is under way")
        ledger = source.ledger
        if self._counts(len(ledger)):
            roots = len(ledger.everything())
            if roots != len(ledger):
                self._fail(f"a ledger has {roots} open roots, not {len(ledger)}")
        following = ledger.next_offsets()
        marks = ledger.low_water()
        for partition, mark in marks.items():
            before = self._marks.get(partition, mark)
            if mark < before:
                self._fail(f"the mark of partition {partition} went back from {before} to {mark}")
            if mark > following.get(partition, mark):
                self._fail(f"partition {partition} is complete beyond what was read")
        return marks
