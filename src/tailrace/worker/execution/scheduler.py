"""Which task runs next, on how much: sources and others in turn, ticks when due, none behind a full outbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.worker.execution.task import CloseWork, CommitWork, ReadWork, Task, TickWork, Work

if TYPE_CHECKING:
    from tailrace.worker.exchange.acks import Acknowledger
    from tailrace.worker.exchange.delivery import Delivery
    from tailrace.worker.execution.completion import Completion
    from tailrace.worker.execution.task import SourceSide
    from tailrace.worker.worker_state import WorkerState

_NS_PER_S = 1_000_000_000
#: How long a worker with nothing to do may sleep.
IDLE_US = 100_000
_STUCK_US = 200
#: How long a worker sleeps at most whose tasks are held back; credits wake it before.
HELD_US = 1000
#: The shortest sleep while a source has something due.
_NAP_US = 50
#: Acks do not wake a worker that wakes by itself within this time, unless it needs them to go on.
_PATIENCE_US = 2000
#: Records read at a time by a source that has a thread of its own.
_THREAD_RECORDS = 64


class Scheduler:
    """Makes pieces of work out of what waits."""

    def __init__(self, worker: WorkerState, delivery: Delivery, completion: Completion, acks: Acknowledger) -> None:
        self._worker = worker
        self._acks = acks
        self._delivery = delivery
        self._completion = completion
        self._driver = worker.driver
        self.refresh()
        self._source_first = False
        settings = worker.program.settings
        self._slice_ns = settings.slice_us * 1000
        self._outbox_tuples = settings.outbox_tuples
        self._outbox_bytes = worker.bounds.outbox
        self._max_pending = settings.max_pending
        self._pending_bytes = worker.bounds.pending
        #: Tasks among those that are ready which were held back when last looked at: a credit brings them on.
        self._held = 0
        #: Whether acks may wait for the end of the sleep that ``wait_us`` has named.
        self.patient = False

    def next_work(self) -> Work | None:
        """The next piece of user code to run; None when there is nothing to do."""
        if self._ticking and (tick := self._tick_work()) is not None:
            return tick
        if not self._worker.sources:
            return self._task_work()
        self._source_first = not self._source_first
        if self._source_first:
            return self._source_work() or self._task_work()
        return self._task_work() or self._source_work()

    def refresh(self) -> None:
        """Tasks have come or gone."""
        self._ticking = [task for task in self._worker.tasks if task.chain.tick_every_s is not None]

    def again(self, task: Task) -> None:
        """A piece of a task's work came back: what it gave is to be sent, and it may have more to do."""
        self._worker.mark_dirty(task)
        if task.has_more:
            self._worker.enqueue(task)

    def _held_back(self, task: Task) -> bool:
        """Whether a task must wait until what it gave before is gone: to other tasks, or to the driver."""
        return task.held_back(self._outbox_tuples, self._outbox_bytes) or self._driver.holds_back(task)

    def _task_work(self) -> Work | None:
        worker = self._worker
        ready = worker.ready
        looks = len(ready)
        self._held = 0
        while looks and ready:
            looks -= 1
            task = ready.popleft()
            task.queued = False
            if task.in_flight and task.in_flight >= task.pieces_max:
                continue  # comes back when a piece of its work does
            if task.commits_due:
                return self._commit_work(task)
            if task.closed or (task.next_tick_ns is not None and self._tick_due(task)):
                continue
            inbox = task.inbox
            if inbox is not None and inbox.waiting:
                if self._held_back(task):
                    worker.enqueue(task)
                    self._held += 1
                    continue
                work = self._take(task, task.values_per_turn(self._slice_ns))
                if inbox.has_more:
                    worker.enqueue(task)
                if work is not None:
                    return work
                looks += 1  # all duplicates; taken for idleness, each batch of them would cost a sleep
            elif inbox is not None and inbox.ended and not task.in_flight:
                if not task.closing and not task.finished:
                    if worker.held:
                        continue  # let go on when the hold is over
                    return self._close_work(task)
                task.closing = True
                self._completion.end_if_done(task)
        return None

    @property
    def has_ready(self) -> bool:
        """Whether a task could be given work now: sending may have made room since those held back were looked at."""
        ready = self._worker.ready
        if len(ready) > self._held:
            return True
        for task in ready:  # noqa: SIM110 - any() takes twice as long
            if not self._held_back(task):
                return True
        return False

    def _take(self, task: Task, values_max: int) -> Work | None:
        """Take a batch from the inbox; duplicates are answered here and never reach the user's code."""
        arrivals, batch = task.inbox.take(values_max)  # type: ignore[union-attr]
        now_ns = self._worker.clock.now_ns()
        for channel, count, since_ns in arrivals:
            if channel.credit_due:
                self._delivery.credit(channel)
            task.waited_ns += (now_ns - since_ns) * count
        keep = task.deduplicator.admit(batch) if task.deduplicator is not None else None
        if keep is not None:
            self._completion.repeat(task, batch.select([not fresh for fresh in keep]))
            batch = batch.select(keep)
            if not batch.values:
                return None
        task.ticked = False
        work = Work(task, batch)
        work.arrivals = arrivals
        return task.issue(work)

    def _source_work(self) -> Work | None:
        for task, source in self._worker.sources:
            if task.closed or task.in_flight or source.paused or (source.held and not source.owed):
                continue
            if source.exhausted:
                if not len(source.ledger) and not task.closing:
                    return self._close_work(task)
                continue
            if self._held_back(task):
                continue
            task.ticked = False
            room = self._room(source)
            if room <= 0:
                continue
            found = source.next_reader(self._worker.clock)
            if found is not None:
                inline = task.mode == "inline"
                records_max = task.values_per_turn(self._slice_ns) if inline else _THREAD_RECORDS
                return task.issue(ReadWork(task, *found, min(room, records_max)))
        return None

    def _room(self, source: SourceSide) -> int:
        """How many records a source may read: open roots are bounded, and so is what they gave."""
        room_bytes = self._pending_bytes - source.ledger.bytes
        if room_bytes <= 0:
            return 0
        room = self._max_pending - len(source.ledger)
        return room if room * source.record_bytes <= room_bytes else max(1, room_bytes // source.record_bytes)

    def _tick_due(self, task: Task) -> bool:
        """Whether it is time for a tick; of two in a row the second lets records and tuples that wait go first."""
        if task.next_tick_ns is None or task.closing or self._worker.held:
            return False
        if self._worker.clock.now_ns() < task.next_tick_ns:
            return False
        if not task.ticked:
            return True
        if task.source is not None:
            return task.source.exhausted or task.source.paused
        return task.inbox is None or not task.inbox.waiting

    def _tick_work(self) -> Work | None:
        for task in self._ticking:
            if not task.in_flight and self._tick_due(task) and not self._held_back(task):
                task.ticked = True
                return task.issue(TickWork(task, self._worker.clock.now_ns() / _NS_PER_S))
        return None

    def _close_work(self, task: Task) -> Work:
        task.closing = True
        return task.issue(CloseWork(task))

    def _commit_work(self, task: Task) -> Work:
        """Publish what is durable; the rest of what the task has to do comes when this is back."""
        task.committing = True
        return task.issue(CommitWork(task, [epoch for epoch in task.prepared if epoch <= task.durable_epoch]))

    def wait_us(self) -> int:
        """How long nothing will be due, in microseconds, if no message comes; asked when ``next_work`` gave nothing."""
        self.patient = False
        if self._worker.outgoing.stuck:
            return _STUCK_US
        until_us = IDLE_US
        now_ns = self._worker.clock.now_ns()
        held_back = False
        acks_ns, sends_ns = self._acks.wait_ns(now_ns), self._delivery.wait_ns(now_ns)
        if acks_ns is not None:
            until_us = min(until_us, acks_ns // 1000)
        if sends_ns is not None:
            until_us = min(until_us, sends_ns // 1000)
        for task, source in self._worker.sources:
            if task.closed or source.exhausted or task.in_flight or source.paused or (source.held and not source.owed):
                continue
            if self._room(source) <= 0 or self._held_back(task):
                held_back = True
            else:
                until_us = min(until_us, max(_NAP_US, (source.ready_ns - now_ns) // 1000))
        for task in self._ticking if not self._worker.held else ():
            if task.next_tick_ns is not None and not task.closing and not task.in_flight and not self._held_back(task):
                until_us = min(until_us, max(0, task.next_tick_ns - now_ns) // 1000)
        if self._worker.ready:  # held back, all of them
            held_back = True
            until_us = min(until_us, HELD_US)
        self.patient = until_us <= _PATIENCE_US and not held_back
        return until_us
