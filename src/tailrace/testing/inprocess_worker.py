"""A worker without a process: a real WorkerBrain with queues in memory for its mail, and user code run inline.

``inprocess`` gives each its turns; how much mail one takes in per turn comes from the run's random source.
"""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING, Any

from tailrace import protocol
from tailrace.checkpoint.stores.errors import ObjectMissingError
from tailrace.topology.operators import TaskContext
from tailrace.worker.brain import WorkerBrain
from tailrace.worker.checkpoint.merger import answer_to
from tailrace.worker.checkpoint.restore import no_store
from tailrace.worker.execution.task import CloseWork, TickWork, Work
from tailrace.worker.main import SLOT_VARIABLE
from tailrace.worker.user_output import operator_logger

from .virtual_time import AwaitedWork

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tailrace.checkpoint.stores.store import ObjectStore
    from tailrace.clock import FakeClock
    from tailrace.topology.operators import OperatorSpec
    from tailrace.worker.uplink.link import Meets

#: Messages that may be under way from one worker to another; a full way pushes back, as a full ring does.
MAIL_MESSAGES_MAX = 64
_PIECES_PER_TURN_MAX = 8
_SOON_S = 1.0
#: How likely a write to the store waits for another turn.
_STORE_WAITS = 0.3
#: How likely an object is read and merged, or told of, in a turn.
_MERGE_ENDS = 0.2


class InProcessWorker:
    """One worker of a run in process."""

    def __init__(
        self,
        slot: int,
        attempt: int,
        clock: FakeClock,
        find: Callable[[int, int], InProcessWorker | None],
        neighbours: Meets | None = None,
        store: ObjectStore | None = None,
    ) -> None:
        self._store = store
        self._merged: deque[protocol.PartsMerged] = deque()
        get = no_store if store is None else store.get
        self.brain = WorkerBrain(slot, attempt, clock, self._send, self._context_of, neighbours, get)
        self.orders: deque[protocol.FromCoordinator] = deque()
        self.mail: dict[tuple[int, int], deque[bytes]] = {}
        self.heard_ns = clock.now_ns()
        self._clock = clock
        self._find = find
        self._awaited = AwaitedWork(clock)

    # -- mail ----------------------------------------------------------------------------------------------------

    def _send(self, slot: int, message: bytes) -> bool:
        peer = self.brain.peers.get(slot)
        target = self._find(slot, peer.attempt) if peer is not None else None
        if target is None:
            return False  # no such worker any more, as a broken connection
        way = target.mail.setdefault((self.brain.slot, self.brain.attempt), deque())
        if len(way) >= MAIL_MESSAGES_MAX:
            return False
        way.append(message)
        return True

    def _context_of(self, spec: OperatorSpec, task: int, tasks: int) -> TaskContext:
        def emit_to_driver(values: Any) -> None:
            self.brain.to_driver(spec.name, task, values)

        logger = operator_logger(self.brain.log, spec.name, task)
        return TaskContext(spec.name, task, tasks, "in-process", logger, self._clock, emit_to_driver)

    # -- turns ---------------------------------------------------------------------------------------------------

    def turn(self, rng: Random) -> bool:
        """Take in some mail, do some work, send what is due. True when there was anything of that."""
        os.environ[SLOT_VARIABLE] = str(self.brain.slot)
        moved = self._take_in(rng)
        for work in self._awaited.take():
            self.brain.finish(work)
            moved = True
        idle = self._work(rng.randint(1, _PIECES_PER_TURN_MAX))
        self.brain.flush(idle=idle)
        self.brain.on_time()
        wrote = self._write(rng)
        merged = self._merge(rng)
        return self._follow(rng) or merged or wrote or moved or not idle

    def _follow(self, rng: Random) -> bool:
        """Read an object for a task that this worker stands by for, sooner or later."""
        shadows = self.brain.shadows
        if not shadows.behind:
            return False
        if rng.random() >= _STORE_WAITS:
            try:
                shadows.read_next()
            except ObjectMissingError as error:  # retired meanwhile
                shadows.give_up(error)
        return True

    def _merge(self, rng: Random) -> bool:
        """Merge parts of a checkpoint, sooner or later; the answer may come much later."""
        merges = self.brain.merges
        if self._store is None or not (merges or self._merged):
            return False
        if self._merged and rng.random() < _MERGE_ENDS:
            self.brain.control_out.append(self._merged.popleft())
        elif merges and rng.random() < _MERGE_ENDS:
            self._merged.append(answer_to(merges.popleft(), self._store, self.brain.slot))
        return True

    def _write(self, rng: Random) -> bool:
        """Write a part of a checkpoint, sooner or later."""
        writes = self.brain.writes
        if self._store is None or not writes:
            return False
        if rng.random() >= _STORE_WAITS:
            write, data, error = writes.popleft(), b"", None
            try:
                data = write.encode()
                self._store.put_new(write.name, data)
            except Exception as found:  # noqa: BLE001 - a user's sink may raise anything here
                error = found
            self.brain.written(write, len(data), error)
        return True

    def _obey(self, message: protocol.FromCoordinator) -> None:
        """Act on an order; the answer to the registration is for whoever has registered, as in a process."""
        if isinstance(message, protocol.Refused):
            self.brain.stopped = True
        elif not isinstance(message, protocol.Welcome):
            self.brain.on_control(message)

    def _take_in(self, rng: Random) -> bool:
        waiting = bool(self.orders)
        if waiting:
            self.heard_ns = self._clock.now_ns()
        for _ in range(rng.randint(0, len(self.orders))):
            self._obey(self.orders.popleft())
        ways = [way for way in self.mail.values() if way]
        rng.shuffle(ways)
        for way in ways:
            for _ in range(rng.randint(0, len(way))):
                self.brain.on_message(way.popleft())
        return waiting or bool(ways)

    def _work(self, pieces_max: int) -> bool:
        for _ in range(pieces_max):
            work = self.brain.next_work()
            if work is None:
                return True
            if work.task.mode == "async" and not isinstance(work, TickWork | CloseWork):
                self._awaited.submit(work)
            else:
                self._run(work)
                self.brain.finish(work)
        return False

    def _run(self, work: Work) -> None:
        begun_ns = self._clock.now_ns()
        try:
            work.run()
        except Exception as error:  # noqa: BLE001 - handed to the brain, which ends the query
            work.error = error
        # What a value costs decides how batches are cut, so it comes from the fake clock, and is not nothing.
        work.took_ns = max(len(work.batch), self._clock.now_ns() - begun_ns)

    def next_ns(self) -> int:
        """When this worker has something to do if no message comes."""
        due_ns = self._clock.now_ns() + max(1, self.brain.wait_us()) * 1000
        timer_ns = self._awaited.next_timer_ns()
        return due_ns if timer_ns is None else min(due_ns, timer_ns)

    @property
    def waits_for_a_time(self) -> bool:
        """Whether an awaited call sleeps, or a source knows that its next record is far off."""
        sources = [task.source for task in self.brain.tasks if task.source is not None]
        return self._awaited.next_timer_ns() is not None or any(source.wait_s() > _SOON_S for source in sources)

    def close(self) -> None:
        """Let go of what user code holds open."""
        self._awaited.close()
        self.brain.close()
