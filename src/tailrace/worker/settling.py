"""What is done with finished work: outputs are routed, inputs acknowledged, roots entered, duplicates answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace import protocol
from tailrace.batch import Batch, mix, root_id

from .outlet import Given, combined
from .task import CloseWork, ReadWork, TickWork

if TYPE_CHECKING:
    from .acks import Acknowledger
    from .floor import Floor
    from .task import SourceSide, Task, Work

_NS_PER_S = 1_000_000_000
#: What the lineage of a root is derived with.
_SALT = 0x2545F4914F6CDD1D


class Settling:
    """Turns finished work into tuples under way and acks."""

    def __init__(self, floor: Floor, acks: Acknowledger) -> None:
        self._floor = floor
        self._acks = acks
        self._tracked = floor.program.policy.tracked
        self._unanchored = 0

    def settle(self, work: Work) -> None:
        """Route the outputs of a piece of work and acknowledge its input."""
        task = work.task
        if isinstance(work, ReadWork):
            self._read(task, work)
        elif isinstance(work, TickWork | CloseWork):
            self._unrooted(task, work)
        elif work.batch.lineages:
            self._tuples(task, work)
        else:
            for edge, values, sizes in work.outputs:
                task.outlets[edge].emit(work.batch, values, sizes)

    def _tuples(self, task: Task, work: Work) -> None:
        batch = work.batch
        outputs = [(task.outlets[edge], values, sizes) for edge, values, sizes in work.outputs]
        xors = [outlet.emit(batch, values, sizes) for outlet, values, sizes in outputs]
        if task.guard is not None and outputs:
            task.guard.remember(batch.lineages, Given(batch.lineages, outputs))
        self._acks.ack(task, batch.roots, batch.incs, combined([batch.lineages, *xors]))

    def _read(self, task: Task, work: ReadWork) -> None:
        source, values = task.source, work.batch.values
        if source is None or not values:
            return
        source.read += len(values)
        now_ns = self._floor.clock.now_ns()
        outputs = [(task.outlets[edge], given, sizes) for edge, given, sizes in work.outputs]
        if not self._tracked or not task.outlets:
            for outlet, given, sizes in outputs:
                outlet.emit(work.batch, given, sizes)
            source.ledger.pass_by(work.partition, work.offsets[-1], len(values))
            if not task.outlets:  # all that comes of a root is done within the task that reads it
                source.latencies.add([now_ns - due_ns for due_ns in work.dues_ns or [now_ns] * len(values)])
            return
        roots = [root_id(work.partition, offset) for offset in work.offsets]
        lineages = [mix(root, _SALT) for root in roots]
        origin = Batch(values, None, roots, [source.ledger.base_inc] * len(roots), lineages)
        xors = [outlet.emit(origin, given, sizes) for outlet, given, sizes in outputs]
        total = combined(xors) if xors else [0] * len(roots)
        dues_ns = list(work.dues_ns) if work.dues_ns is not None else [now_ns] * len(values)
        source.latencies.add(source.ledger.emit(roots, total, dues_ns, now_ns, Given(lineages, outputs)))

    def _unrooted(self, task: Task, work: Work) -> None:
        """Emit what hangs on no root: it is delivered in order, but neither tracked nor sent again."""
        floor = self._floor
        if isinstance(work, TickWork):  # counted from its end, so that a long one leaves time for tuples
            task.next_tick_ns = floor.clock.now_ns() + int((task.chain.tick_every_s or 1.0) * _NS_PER_S)
        for edge, values, sizes in work.outputs:
            self._unanchored += 1
            lineage = mix(floor.slot << 48 | floor.attempt << 32, self._unanchored)
            ids = ([0], [0], [lineage]) if self._tracked else ([], [], [])
            task.outlets[edge].emit(Batch(values, sizes, *ids), values, sizes if self._tracked else None)
        if isinstance(work, CloseWork):
            task.closed = True
            for box in task.boxes:
                box.ended = True
                floor.dirty[box] = None
            floor.control_out.append(protocol.TaskDone(task.stage.id, task.index))

    def repeat(self, task: Task, batch: Batch) -> None:
        """Answer duplicates: send again what they gave the first time, under the new incarnation."""
        xors = []
        for root, inc, lineage in zip(batch.roots, batch.incs, batch.lineages, strict=True):
            given = task.guard.recall(lineage)  # type: ignore[union-attr]
            if given is not None:
                xors.append(lineage ^ given.emit_again(given.index_of(lineage), root, inc))
            else:
                # While the first one is being worked on, nothing may be acked that it has yet to do.
                xors.append(0 if task.adopt(lineage, inc) else lineage)
        self._floor.mark_dirty(task)
        self._acks.ack(task, batch.roots, batch.incs, xors)

    def replay(self, task: Task, source: SourceSide, roots: list[int]) -> None:
        """Send open roots again, each as its next incarnation."""
        now_ns = self._floor.clock.now_ns()
        for root in roots:
            inc, given, index = source.ledger.reincarnate(root, now_ns)
            source.ledger.sent_again(root, given.emit_again(index, root, inc))
        self._floor.mark_dirty(task)
