"""Cuts a worker's tasks when an epoch reaches it, and draws what they wrote into one part, bit by bit.

The argument is decision 033. A task without work out is cut at once, one with a piece out when that comes back; until
then it gets no other. What must be as of the cut is taken at the cut; keyed state is drawn afterwards, a few keys in
each round of the loop, because its backend knows what keys were. Owned by the deployment; the loop's thread calls it.
"""

from __future__ import annotations

import uuid
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace import protocol
from tailrace.checkpoint.keyed import keyed_part
from tailrace.checkpoint.log import part_name
from tailrace.checkpoint.part import TaskPart, WorkerPart, encode_part
from tailrace.state.backend import Delta
from tailrace.state.snapshot import OperatorSnapshot, TaskSnapshot
from tailrace.transport import codec, wire
from tailrace.worker.snapshots import task_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.state.backend import StateBackend
    from tailrace.transport.message_codec import Opened
    from tailrace.worker.checkpoint.transactions import Transactions
    from tailrace.worker.execution.task import Task
    from tailrace.worker.worker_state import WorkerState

#: Keys drawn in one round of the loop: a fraction of a millisecond.
_KEYS_PER_ROUND = 256
#: A base is written once the deltas since the last one have held so many times the keys that there are.
_BASE_AFTER = 2
TaskId = tuple[int, int]


@dataclass
class _Drawing:
    """Keyed state of one operator as of a cut, on its way into the part."""

    state: StateBackend
    since: int | None
    keys: deque[Any]
    drawn: list[Delta] = field(default_factory=list)


@dataclass
class _Draft:
    """A task as of a cut; ``part`` lacks its keyed state."""

    task: Task
    part: TaskPart
    keyed: dict[str, _Drawing]

    @property
    def is_base(self) -> bool:
        """Whether it needs no earlier part."""
        return all(drawing.since is None for drawing in self.keyed.values())

    @property
    def is_empty(self) -> bool:
        """Whether it, all drawn, adds nothing by key to the part before."""
        return not self.is_base and not any(drawing.drawn for drawing in self.keyed.values())


@dataclass(frozen=True)
class PartWrite:
    """A part to be encoded and written, by a thread that may wait."""

    execution: int
    epoch: int
    name: str
    encode: Callable[[], bytes]
    #: Stage and number of each task, whether it stands by itself here, and whether it tells of no key.
    tasks: list[tuple[int, int, bool, bool]]


@dataclass(frozen=True)
class KeptCut:
    """What a worker keeps of a cut to go back to it: each task, and its part but for the keyed state."""

    marks: dict[int, int]
    tasks: dict[TaskId, tuple[Task, TaskPart]]


class Cutter:
    """The cuts of one deployment."""

    def __init__(self, worker: WorkerState, order: protocol.Durability, transactions: Transactions) -> None:
        self._worker = worker
        self._transactions = transactions
        self._attempt = order.attempt
        #: Ends the names of parts: starts before the first durable epoch have the same attempt and execution.
        self._writer = f"{worker.slot}-{uuid.uuid4().hex[:12]}"
        self.execution = order.execution
        #: The newest epoch that has reached this worker.
        self.epoch = order.epoch
        #: Parts that wait to be written.
        self.writes: deque[PartWrite] = deque()
        self.kept: dict[int, KeptCut] = {}
        self._prepared: tuple[int, dict[int, int]] = (order.epoch, {})
        #: Tasks that are to be cut as soon as their work is back.
        self._pending: dict[Task, None] = {}
        #: Tasks that are cut, and to be drawn as soon as their work is back: a thread has them meanwhile.
        self._undrawn: dict[Task, _Draft] = {}
        self._drafts: list[_Draft] = []
        self._offsets: dict[int, int] = {}
        #: The newest cut whose part is known to be written: the next delta builds on it.
        self._written = order.epoch
        #: Tasks that came from another worker, and the epoch at that time: their earlier cuts are not known here.
        self._adopted: dict[TaskId, int] = {}
        #: Per task, keys in deltas since its last base.
        self._keys_since_base: dict[TaskId, int] = {}

    def begin(self, kept: KeptCut) -> None:
        """The tasks have the state they begin with, and may have to go back to: note from now on what changes."""
        self.kept[self.epoch] = kept
        self._worker.outgoing.begin_epoch(self.epoch, self.execution)
        for task in self._worker.tasks:
            for _, step in task_state.stateful(task):
                step.state.track(self.epoch)

    def adopt(self, task: Task) -> None:
        """A task came from another worker: note what changes, and write all of it until a cut of it is written."""
        for _, step in task_state.stateful(task):
            step.state.track(self.epoch)
        self._adopted[task.stage.id, task.index] = self.epoch

    def is_current(self, frames: list[Opened]) -> bool:
        """Whether a message is of this execution; if its sender has reached a later epoch, this worker does so now."""
        kind, epoch, content = frames.pop(0)
        if kind != wire.EPOCH or wire.EXECUTION.unpack(content)[0] != self.execution:
            return False
        self.reach(epoch)
        return True

    @property
    def active(self) -> bool:
        """Whether something is still to be drawn, and can be now."""
        return any(draft.task not in self._undrawn for draft in self._drafts)

    # -- orders --------------------------------------------------------------------------------------------------

    def prepare(self, order: protocol.PrepareCut) -> None:
        """Learn the marks of an epoch before anyone cuts it."""
        self._prepared = (order.epoch, order.marks)
        self._worker.control_out.append(protocol.CutPrepared(order.epoch))

    def reach(self, epoch: int) -> None:
        """An epoch has reached this worker, by order or with a message: cut everything before anything else is done."""
        if epoch <= self.epoch:
            return
        self.epoch = epoch
        worker, (_, marks) = self._worker, self._prepared
        worker.outgoing.begin_epoch(epoch, self.execution)
        self._abandon()
        self.kept[epoch] = KeptCut(marks, {})
        self._offsets = {}
        for _, source in worker.sources:
            # What is owed since a recovery may be in the cuts of tasks although it was not read again yet.
            self._offsets |= source.ledger.next_offsets() | source.owed
        for task in worker.tasks:
            if task.deduplicator is None:
                continue
            if task.in_flight:
                self._pending[task] = None
                worker.freeze(task)
            else:
                self._cut(task, marks)
        self._write_if_drawn()

    def returned(self, task: Task) -> None:
        """A piece of work is back: cut its task if that was waited for."""
        if task in self._pending and not task.in_flight:
            del self._pending[task]
            self._cut(task, self._prepared[1])
            self._worker.thaw(task)
            self._write_if_drawn()
        elif task in self._undrawn and not task.in_flight:
            self._draw_all(self._undrawn.pop(task))
            self._worker.thaw(task)
            self._write_if_drawn()

    def awaits(self, task: Task) -> bool:
        """Whether a task is to be cut or drawn when its work comes back, and stands still until then."""
        return task in self._pending or task in self._undrawn

    @property
    def waits(self) -> bool:
        """Whether a task must be cut or drawn when its work comes back."""
        return bool(self._pending) or bool(self._undrawn)

    def durable(self, epoch: int) -> None:
        """An epoch is published: nothing goes back before it."""
        if epoch not in self.kept:
            return
        for task in self._worker.tasks:
            for _, step in task_state.stateful(task):
                step.state.release(epoch)
        marks = self.kept[epoch].marks
        for _, source in self._worker.sources:
            for partition, reader in source.readers.items():
                reader.commit(marks.get(partition, 0))
        self.kept = {kept: tasks for kept, tasks in self.kept.items() if kept >= epoch}

    # -- cutting -------------------------------------------------------------------------------------------------

    def _cut(self, task: Task, marks: dict[int, int]) -> None:
        """Take what a task is now; from here on it belongs to the next epoch."""
        epoch, ident = self.epoch, (task.stage.id, task.index)
        self._transactions.prepare(task, epoch)
        part = self._part(task, marks)
        states = {name: step.state for name, step in task_state.stateful(task)}
        for state in states.values():
            state.cut(epoch)
        keyed = self._drawings(ident, states)
        self.kept[epoch].tasks[ident] = (task, part)
        draft = _Draft(task, part, keyed)
        self._drafts.append(draft)
        if task.mode != "inline":  # a thread would change its state under the hands of whoever draws
            self._draw_all(draft)
        deduplicator, own = task.deduplicator, task.own
        for partition, offset in marks.items():
            if deduplicator is not None:
                deduplicator.low_water(partition, offset)
        if own is not None:
            own.forget(marks.get(own.partition, 0))

    def _part(self, task: Task, marks: dict[int, int]) -> TaskPart:
        own, driver = task.own, self._worker.driver
        kept = [] if own is None else own.kept(marks.get(own.partition, 0))
        return TaskPart(
            task_state.take_unkeyed(task, marks),
            task.finished,
            0 if own is None else own.next,
            codec.dumps(kept) if kept else b"",
            driver.next_numbers(task),
            driver.untaken(task),
            list(task.prepared),
        )

    def _drawings(self, ident: TaskId, states: dict[str, StateBackend]) -> dict[str, _Drawing]:
        """What has changed since the last part that is known to be written; all of it, when deltas have added up."""
        if self._adopted.get(ident, -1) >= self._written:
            return {name: _Drawing(state, None, deque(state.keys_at(self.epoch))) for name, state in states.items()}
        changed = {name: state.changed_since(self._written, self.epoch) for name, state in states.items()}
        held = self._keys_since_base.get(ident, 0) + sum(map(len, changed.values()))
        if held > _BASE_AFTER * max(_KEYS_PER_ROUND, sum(map(len, states.values()))):
            self._keys_since_base[ident] = 0
            return {name: _Drawing(state, None, deque(state.keys_at(self.epoch))) for name, state in states.items()}
        self._keys_since_base[ident] = held
        return {name: _Drawing(state, self._written, deque(changed[name])) for name, state in states.items()}

    # -- drawing -------------------------------------------------------------------------------------------------

    def progress(self) -> None:
        """Draw a few keys; called in every round while something is to be drawn."""
        left = _KEYS_PER_ROUND
        for draft in self._drafts:
            task = draft.task
            if task in self._undrawn:
                continue
            if task.in_flight and task.mode != "inline":  # its code was stuck in the loop, and was left to a thread
                self._undrawn[task] = draft
                self._worker.freeze(task)
            else:
                left -= self._draw(draft, left)
        if left > 0:
            self._write_if_drawn()

    def _draw(self, draft: _Draft, keys_max: int) -> int:
        """Draw so many keys of a task at most; tells how many there were."""
        left = keys_max
        for drawing in draft.keyed.values():
            keys = [drawing.keys.popleft() for _ in range(min(left, len(drawing.keys)))]
            left -= len(keys)
            if keys:
                drawing.drawn.append(drawing.state.delta(drawing.since, self.epoch, keys))
        return keys_max - left

    def _draw_all(self, draft: _Draft) -> None:
        self._draw(draft, sum(len(drawing.keys) for drawing in draft.keyed.values()))

    def _write_if_drawn(self) -> None:
        if self._pending or any(drawing.keys for draft in self._drafts for drawing in draft.keyed.values()):
            return
        epoch, drafts = self.epoch, self._drafts
        self._drafts = []
        name = part_name(epoch, self._attempt, self.execution, self._writer)
        tasks = [(draft.task.stage.id, draft.task.index, draft.is_base, draft.is_empty) for draft in drafts]
        syncs = [sync for draft in drafts for sync in draft.task.syncs]
        self.writes.append(PartWrite(self.execution, epoch, name, lambda: _encoded(epoch, drafts, syncs), tasks))

    def _abandon(self) -> None:
        """Give up an epoch whose part was not drawn yet: another one is here."""
        self._drafts = []
        for task in [*self._pending, *self._undrawn]:
            self._worker.thaw(task)
        self._pending.clear()
        self._undrawn.clear()

    def written(self, write: PartWrite, size_bytes: int, error: Exception | None) -> None:
        """A part was written, or could not be; one that is late is left, because the next was not built on it."""
        if write.epoch != self.epoch:
            return
        if error is not None:
            message = getattr(error, "message", f"{type(error).__name__}: {error}")
            self._worker.control_out.append(protocol.CutFailed(write.epoch, message, getattr(error, "hint", "")))
            return
        self._written = write.epoch
        for task, _ in self.kept[write.epoch].tasks.values():
            task.syncs = []
        numbers = {
            f"{name}/{index}": number
            for (_, index), (_, part) in self.kept[write.epoch].tasks.items()
            for name, number in part.driver_next.items()
        }
        self._worker.control_out.append(
            protocol.PartWritten(write.epoch, write.name, size_bytes, write.tasks, self._offsets, numbers)
        )


def _encoded(epoch: int, drafts: list[_Draft], syncs: list[Callable[[], object]]) -> bytes:
    """What sinks have prepared must be durable when the part is."""
    for sync in syncs:
        sync()
    return encode_part(WorkerPart(epoch, [_whole(draft) for draft in drafts]))


def _whole(draft: _Draft) -> TaskPart:
    """Put the keyed state of a task into its part."""
    snapshot: TaskSnapshot = draft.part.snapshot
    operators = dict(snapshot.operators)
    for name, drawing in draft.keyed.items():
        before = operators.get(name, OperatorSnapshot())
        merged = Delta({}, {}, [])
        for delta in drawing.drawn:
            merged.values.update(delta.values)
            merged.encoded.update(delta.encoded)
            merged.deleted.extend(delta.deleted)
        keyed = [keyed_part(merged, since=drawing.since)]
        operators[name] = msgspec.structs.replace(before, keyed=keyed)
    return msgspec.structs.replace(draft.part, snapshot=msgspec.structs.replace(snapshot, operators=operators))
