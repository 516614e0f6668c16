"""The coordinator's part in checkpoints: one epoch after the other through its steps, and the way back to the last.

    drain    where a drained savepoint was asked for: ``HoldInput`` to all -> ``InputDrained`` by all
    marks    ``AskMarks`` to all -> ``CutMarks`` by all: below which offsets everything is complete
    prepare  ``PrepareCut`` with them to all -> ``CutPrepared`` by all
    cut      ``Cut`` to all -> ``PartWritten`` by all
    publish  the manifest is the next entry of the log -> ``EpochDurable`` to all
    commit   of the last epoch only: ``Committed`` by all, whose sinks have published it; then the query ends

Until it is published an epoch can fail by itself: the next one begins anew. When a worker is lost, all are deployed
again as of the last durable epoch, under a new execution number. Decision 033 has the argument. Pure: what is to be
written waits in ``publish`` for someone who may wait.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from tailrace import protocol
from tailrace.checkpoint.errors import CheckpointsFailedError, CheckpointTakenOverError
from tailrace.checkpoint.manifest import Manifest, PartitionRow, TaskRow
from tailrace.coordinator.chains import Chains
from tailrace.coordinator.reporting.durability import EpochFigures
from tailrace.coordinator.savepoints.requests import SavepointRequests
from tailrace.coordinator.savepoints.shape import edge_rows, operator_rows, route_rows

if TYPE_CHECKING:
    from tailrace.checkpoint.savepoint import WrittenSavepoint
    from tailrace.checkpoint.settings import Checkpoint
    from tailrace.coordinator.brain import CoordinatorBrain
    from tailrace.coordinator.savepoints.requests import SavepointRequest

_log = logging.getLogger("tailrace")
_NS_PER_S = 1_000_000_000


class Checkpoints:
    """The checkpoints of one query."""

    def __init__(self, brain: CoordinatorBrain, settings: Checkpoint, resumed: Manifest | None) -> None:
        self._brain = brain
        self._settings = settings
        #: What tells this checkpoint from others, for the names of what sinks leave behind.
        name = f"{settings.path} {brain.program.plan.name}"
        self._name = hashlib.blake2b(name.encode(), digest_size=6).hexdigest()
        self.attempt = 1 if resumed is None else resumed.attempt
        self.execution = 1
        #: The newest epoch that was begun, and the entry of the last one that is durable.
        self.epoch = 0 if resumed is None else max(resumed.epoch, resumed.begun)
        self.durable = resumed
        self.state = "idle"
        self.figures = EpochFigures()
        #: Entries to be written, and the one that was handed out for it and has not come back.
        self.publish: deque[Manifest] = deque()
        self._publishing: Manifest | None = None
        self.chains = Chains(settings.chain_max)
        self._awaited: set[int] = set()
        self._marks: dict[int, int] = {}
        self._offsets: dict[int, int] = {}
        self._numbers: dict[str, int] = {}
        self._begun_ns = 0
        self._due_ns = 0
        #: Whether all tasks have come to their end: the query ends with the next epoch that begins and is durable.
        self._last = False
        self.savepoints = SavepointRequests()
        #: Whether the input is held: nothing is in flight when the epoch is cut.
        self._held = False
        #: Whether the epoch under way was begun after that, so that it holds everything.
        self._holds_all = False
        if resumed is not None:
            self._go_back(resumed)

    # -- one epoch after the other -------------------------------------------------------------------------------

    def tick(self, now_ns: int) -> None:
        """Begin an epoch if one is due and everyone is there; give one up that takes too long."""
        settings, brain = self._settings, self._brain
        if self.state in {"marks", "prepare", "cut"} and now_ns - self._begun_ns > settings.timeout_s * _NS_PER_S:
            waiting = ", ".join(f"worker {slot}" for slot in sorted(self._awaited))
            self._failed(
                f"it took longer than {settings.timeout_s:g} s; {waiting} had not come to the end of {self.state!r}"
            )
        if self.state == "drain":  # that may take as long as whoever asked for it waits
            self._begun_ns = now_ns
        if self._held and not self.savepoints.drains and not self.savepoints.stopped:
            self._release()
        due = self.is_due(now_ns) and not self.savepoints.ending
        if self.state == "idle" and due and brain.operations.idle and all(each.open for each in brain.members.values()):
            self._due_ns = now_ns + int(settings.every_s * _NS_PER_S)
            self._begun_ns = now_ns
            self.epoch += 1
            self._holds_all = self._last
            self._marks, self._offsets, self._numbers = {}, {}, {}
            self.savepoints.begun(self.epoch)
            if self.savepoints.drains and not self._held:
                self._held = True
                self._enter("drain", protocol.HoldInput(self.epoch), now_ns)
            else:
                self._enter("marks", protocol.AskMarks(self.epoch), now_ns)

    def _release(self) -> None:
        """Nobody waits for a drained savepoint any more: the query goes on."""
        self._held = False
        self._brain.tell_all(protocol.ReleaseInput())
        if self.state == "drain":
            self.state = "idle"

    def is_due(self, now_ns: int) -> bool:
        """Whether an epoch is to begin now."""
        return now_ns >= self._due_ns or self._last or self.savepoints.due

    @property
    def every_s(self) -> float:
        """How often an epoch begins."""
        return self._settings.every_s

    @property
    def idle(self) -> bool:
        """Whether no epoch is under way, and the input is not held: a task that moved would read."""
        return self.state == "idle" and not self._held

    def _enter(self, state: str, order: protocol.FromCoordinator, now_ns: int) -> None:
        self.state = state
        self.figures.entered(state, now_ns)
        # Those that are not open have registered and wait to join.
        self._awaited = {slot for slot, member in self._brain.members.items() if member.open}
        self._brain.tell_all(order)

    def on_message(self, slot: int, message: protocol.FromWorker, now_ns: int) -> None:
        """Take in what a worker says about an epoch."""
        if isinstance(message, protocol.PartWritten):
            self.chains.written(message)
        elif isinstance(message, protocol.PartsMerged):
            self.chains.merged(slot, message, self.epoch)
        if getattr(message, "epoch", 0) != self.epoch:
            return
        match message:
            case protocol.InputDrained() if self.state == "drain":
                self._heard(slot, now_ns)
            case protocol.CutMarks(marks=marks) if self.state == "marks":
                self._marks |= marks
                self._heard(slot, now_ns)
            case protocol.CutPrepared() if self.state == "prepare":
                self._heard(slot, now_ns)
            case protocol.PartWritten() if self.state == "cut":
                self._offsets |= message.offsets
                self._numbers |= message.numbers
                self.figures.written(message.size_bytes)
                self._heard(slot, now_ns)
            case protocol.CutFailed(message=reason, hint=hint) if self.state == "cut":
                self._failed(reason, hint)
            case protocol.Committed() if self.state == "commit":
                self._heard(slot, now_ns)

    def _heard(self, slot: int, now_ns: int) -> None:
        self._awaited.discard(slot)
        if self._awaited:
            return
        if self.state == "drain":
            self._enter("marks", protocol.AskMarks(self.epoch), now_ns)
        elif self.state == "marks":
            self._enter("prepare", protocol.PrepareCut(self.epoch, self._marks), now_ns)
        elif self.state == "prepare":
            self._enter("cut", protocol.Cut(self.epoch), now_ns)
        elif self.state == "commit":
            self.state = "idle"
            self._copy_or_end()
        else:
            self.state = "publish"
            self.figures.entered(self.state, now_ns)
            self._publishing = self._manifest()
            self.publish.append(self._publishing)

    def next_to_publish(self) -> Manifest | None:
        """The entry that is to be made now; None if there is none."""
        return self.publish.popleft() if self.publish else None

    def published(self, manifest: Manifest, error: Exception | None, now_ns: int) -> None:
        """An entry was made, or could not be. If a worker was lost meanwhile, this is where all go back to."""
        self._publishing = None
        if isinstance(error, CheckpointTakenOverError):
            self._brain.fail(error)
            return
        if error is not None:
            self._failed(getattr(error, "message", f"{type(error).__name__}: {error}"), getattr(error, "hint", ""))
            return
        self.durable = manifest
        self.figures.published(now_ns)
        if self.state != "publish":
            return
        # With an epoch that the query may end with, sinks publish before anything else is done.
        if (self._holds_all and self._brain.all_done) or self._held:
            self._enter("commit", protocol.EpochDurable(manifest.epoch), now_ns)
        else:
            self.state = "idle"
            self._brain.tell_all(protocol.EpochDurable(manifest.epoch))
            self._order_merges(manifest)
            self._copy_or_end()
        self._brain.recovery.follow()

    def _order_merges(self, durable: Manifest) -> None:
        """Let workers merge what has become long; they do it when they can."""
        brain = self._brain
        here = {slot for slot, member in brain.members.items() if member.open}
        self.chains.forget(here, durable.objects)
        for slot, tasks in self.chains.long(brain.placement, here, self.epoch).items():
            brain.tell(brain.members[slot], self.chains.order(slot, self.attempt, self.execution, self.epoch, tasks))

    def copied(self, request: SavepointRequest, written: WrittenSavepoint | None, error: Exception | None) -> None:
        """A savepoint was copied, or could not be."""
        self.savepoints.copied(request, written, error)
        self._end_if_over()

    def _copy_or_end(self) -> None:
        """An epoch is durable, and published by sinks where the query may end with it."""
        if self.durable is not None:
            self.savepoints.durable(self.durable)
        self._end_if_over()

    def _end_if_over(self) -> None:
        """End the query where the last epoch is durable: all tasks are done, or the drained savepoint is made of it."""
        done = self._holds_all and self._brain.all_done and not self.savepoints.busy and self.state != "commit"
        if done or self.savepoints.stopped:
            self._brain.end()

    def _failed(self, reason: str, hint: str = "") -> None:
        self.state = "lost" if self.state == "lost" else "idle"
        self.savepoints.failed(reason, hint)
        self.figures.failed()
        in_a_row = self.figures.failures_in_a_row
        _log.warning("query %s: checkpoint %d failed: %s", self._brain.program.plan.name, self.epoch, reason)
        if in_a_row > self._settings.tolerated_failures:
            self._brain.fail(
                CheckpointsFailedError(
                    f"{in_a_row} checkpoints in a row failed, {self._settings.tolerated_failures} are "
                    f"tolerated; the last one because: {reason}",
                    hint or "See to the store, or raise tolerated_failures.",
                )
            )

    def all_done(self) -> None:
        """All tasks have come to their end: cut once more, so that everything they did is durable, then end."""
        self._last = True

    # -- the way back --------------------------------------------------------------------------------------------

    def lost(self) -> None:
        """A worker is lost: no epoch begins until everyone was deployed again."""
        self.state = "lost"
        self._last = self._held = False
        self.savepoints.lost()

    @property
    def may_go_back(self) -> bool:
        """Whether it is known which epoch is the last that is durable, and that the query does not end with it."""
        return self._publishing is None and not self.savepoints.ending

    def go_back(self) -> None:
        """Everyone is there again: begin another execution as of the last durable epoch."""
        self.execution += 1
        self.state = "idle"
        if self.durable is not None:
            self._go_back(self.durable)
        else:
            self.chains.go_back({})
            self._brain.tables.clear()

    def _go_back(self, manifest: Manifest) -> None:
        stages = {stage.head.name: stage.id for stage in self._brain.program.plan.stages}
        self.chains.go_back({(stages[row.operator], row.task): list(row.objects) for row in manifest.tasks})
        self._brain.tables.clear()
        self._brain.tables.update({stages[name]: table for name, table in manifest.tables.items()})

    @property
    def marks(self) -> dict[int, int]:
        """Where sources begin: the marks of the last durable epoch."""
        return {} if self.durable is None else {row.number: row.mark for row in self.durable.partitions}

    @property
    def origins(self) -> list[list[tuple[int, int]]]:
        """By which places streams keep near since a driver before this one; none where nothing is in flight."""
        durable = self.durable
        return [] if durable is None or durable.drained else [list(stage) for stage in durable.origins]

    @property
    def numbers(self) -> dict[tuple[str, int], int]:
        """Per operator and task the number of its next message to the driver, as of the last durable epoch."""
        found = {} if self.durable is None else self.durable.numbers
        return {(name.rpartition("/")[0], int(name.rpartition("/")[2])): number for name, number in found.items()}

    def order_for(self, slot: int) -> protocol.Durability:
        """What a worker needs to begin, or to begin again."""
        placement = self._brain.placement
        durable = self.durable
        return protocol.Durability(
            self.attempt,
            self.execution,
            0 if durable is None else durable.epoch,
            [
                (stage, task, names)
                for (stage, task), names in self.chains.of.items()
                if placement[stage][task] == slot and durable is not None
            ],
            {} if durable is None else {row.number: row.offset for row in durable.partitions},
            self._name,
        )

    # -- what is written -----------------------------------------------------------------------------------------

    def _manifest(self) -> Manifest:
        brain, plan = self._brain, self._brain.program.plan
        return Manifest(
            number=1 if self.durable is None else self.durable.number + 1,
            kind="checkpoint",
            query=plan.name,
            attempt=self.attempt,
            execution=self.execution,
            epoch=self.epoch,
            created_unix_s=time.time(),
            drained=self._holds_all or self._held,
            operators=operator_rows(plan),
            partitions=tuple(self._partition(row) for row in brain.partitions),
            tasks=tuple(
                TaskRow(plan.stages[stage].head.name, task, tuple(names))
                for (stage, task), names in sorted(self.chains.of.items())
            ),
            tables={plan.stages[stage].head.name: table for stage, table in brain.tables.items()},
            driver=() if self.durable is None else self.durable.driver,
            numbers=dict(self._numbers),
            key_groups=brain.program.settings.key_groups,
            edges=edge_rows(plan),
            routes=route_rows(brain.program),
            origins=tuple(tuple((node, slot) for node, slot in stage) for stage in brain.membership.origins),
            restored_from="" if self.durable is None else self.durable.restored_from,
        )

    def _partition(self, row: list[Any]) -> PartitionRow:
        number, stage, _, name = row
        operator = self._brain.program.plan.stages[stage].head.name
        mark = self._marks.get(number, 0)
        return PartitionRow(number, operator, name, mark, max(mark, self._offsets.get(number, 0)))
