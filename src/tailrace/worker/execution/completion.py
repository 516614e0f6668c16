"""What is done with finished work: outputs are routed, inputs acknowledged, roots entered, duplicates answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace import protocol
from tailrace.batch import HEAD_PLACES, mix, numbers
from tailrace.hot import root_heads, weigh
from tailrace.worker.exchange.outlet import EmittedOutputs, emit_all
from tailrace.worker.execution.task import CloseWork, ReadWork, TickWork

if TYPE_CHECKING:
    from array import array

    from tailrace.batch import Batch
    from tailrace.worker.exchange.acks import Acknowledger
    from tailrace.worker.execution.own_roots import OwnRoots
    from tailrace.worker.execution.task import SourceSide, Task, Work
    from tailrace.worker.worker_state import WorkerState

_NS_PER_S = 1_000_000_000
#: Work whose outputs hang on no root.
_UNROOTED = (TickWork, CloseWork)


class Completion:
    """Turns finished work into tuples under way and acks."""

    def __init__(self, worker: WorkerState, acks: Acknowledger) -> None:
        self._worker = worker
        self._acks = acks
        self._tracked = worker.program.policy.tracked
        self._unanchored = 0

    def settle(self, work: Work) -> None:
        """Route the outputs of a piece of work and acknowledge its input."""
        task = work.task
        if isinstance(work, ReadWork):
            self._read(task, work)
        elif isinstance(work, _UNROOTED):
            self._unrooted(task, work)
        elif work.batch.heads:
            self._tuples(task, work)
        else:
            emit_all(work.batch.heads, task.outputs_of(work))

    def _tuples(self, task: Task, work: Work) -> None:
        batch = work.batch
        if not task.outlets:
            self._acks.ack(task, batch.heads)
            return
        outputs = task.outputs_of(work)
        left = emit_all(batch.heads, outputs)
        if task.deduplicator is not None and outputs:
            task.deduplicator.remember(batch, EmittedOutputs(batch.lineages, outputs))
        if left is not None:
            self._acks.ack(task, _acks_of(batch, left))

    def _read(self, task: Task, work: ReadWork) -> None:
        source, values = task.source, work.batch.values
        if source is None or not values:
            if source is not None:
                source.dry.add(work.partition)
            return
        source.read += len(values)
        if source.owed and work.offsets[-1] + 1 >= source.owed.get(work.partition, 0):
            source.owed.pop(work.partition, None)
        now_ns = self._worker.clock.now_ns()
        outputs = task.outputs_of(work)
        if not self._tracked or not task.outlets:
            emit_all(work.batch.heads, outputs)
            source.ledger.pass_by(work.partition, work.offsets[-1], len(values))
            if not task.outlets:  # all that comes of a root is done within the task that reads it
                source.latencies.add([now_ns - due_ns for due_ns in work.dues_ns or [now_ns] * len(values)])
            return
        heads = root_heads(work.partition, work.offsets, source.ledger.base_inc)
        left = emit_all(heads, outputs)
        given = EmittedOutputs(heads[2::HEAD_PLACES], outputs)
        given_bytes = sum([weigh(found, 0) for _, found, _ in work.outputs])
        source.record_bytes = given_bytes // len(values)
        source.latencies.add(source.ledger.emit(heads, left, work.dues_ns, now_ns, given, given_bytes))
        if source.replays is not None:
            source.replays.emitted(len(values))

    def _unrooted(self, task: Task, work: Work) -> None:
        """Emit what came of no tuple: as roots of the task's own, or, without checkpoints, untracked but in order."""
        worker = self._worker
        if isinstance(work, TickWork):  # counted from its end, so that a long one leaves time for tuples
            task.next_tick_ns = worker.clock.now_ns() + int((task.chain.tick_every_s or 1.0) * _NS_PER_S)
        for edge, values, sizes in work.outputs:
            if task.own is not None:
                task.own.emit(task.outlets[edge], values, sizes, worker.clock.now_ns())
                continue
            self._unanchored += 1
            lineage = mix(worker.slot << 48 | worker.attempt << 32, self._unanchored)
            heads = numbers((0, 0, lineage) if self._tracked else ())
            task.outlets[edge].emit(heads, values, sizes if self._tracked else None)
        if isinstance(work, CloseWork):
            task.finished = True
            self.end_if_done(task)

    def end_if_done(self, task: Task) -> None:
        """End a task whose operators are closed, once what it gave by itself is complete."""
        worker = self._worker
        if task.closed or not task.finished or not task.closing or (task.own is not None and len(task.own.ledger)):
            return
        task.closed = True
        for box in task.boxes:
            box.ended = True
            worker.dirty[box] = None
        worker.control_out.append(protocol.TaskDone(task.stage.id, task.index))

    def repeat(self, task: Task, batch: Batch) -> None:
        """Answer duplicates: send again what they gave the first time, under the new incarnation."""
        acks = numbers()
        for root, inc, lineage in zip(batch.roots, batch.incs, batch.lineages, strict=True):
            given = task.deduplicator.recall(lineage)  # type: ignore[union-attr]
            if given is not None:
                left = given.emit_again(given.index_of(lineage), root, inc)
            else:
                # While the first one is being worked on, nothing may be acked that it has yet to do.
                left = 0 if task.adopt(lineage, inc) else lineage
            if left:
                acks.extend((root, inc, left))
        self._worker.mark_dirty(task)
        if acks:
            self._acks.ack(task, acks)

    def replay(self, task: Task, source: SourceSide | OwnRoots, roots: list[int], *, lost: bool = False) -> None:
        """Send open roots again, each as its next incarnation; if a worker was lost, only that one counts."""
        now_ns = self._worker.clock.now_ns()
        for root in roots:
            inc, given, index = source.ledger.reincarnate(root, now_ns, lost=lost)
            left = given.emit_again(index, root, inc)
            if left:
                source.latencies.add(source.ledger.acks(numbers((root, inc, left)), now_ns))
        self._worker.mark_dirty(task)


def _acks_of(batch: Batch, left: array[int]) -> array[int]:
    """Acknowledge what is left of some bundles' shares."""
    heads = batch.heads
    return numbers(
        number
        for at, share in enumerate(left)
        if share
        for number in (heads[at * HEAD_PLACES], heads[at * HEAD_PLACES + 1], share)
    )
