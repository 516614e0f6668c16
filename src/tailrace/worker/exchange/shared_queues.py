"""Tasks that take from one queue: those of this worker by themselves, those of its node's other workers by hand-outs.

The queue is at the group's *owner* (``receiving.queue_owners``), one logical task towards senders: credits, ends and
losses are those of any inbox. A task of another worker has a *consumer* at the owner: a channel of its own, on which it
is given as much as it works off in one slice of time and more only when that is done, so that what it holds is a claim.
When its worker is lost the claims go back to the queue, or their roots are sent again. Called by ``delivery``; may
touch the
worker.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from tailrace.worker.execution.task import VALUES_PER_TURN_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.batch import Batch
    from tailrace.receiving.inbox import Arrival, Inbox
    from tailrace.receiving.shared_inbox import SharedInbox
    from tailrace.sending.outbox import Outbox
    from tailrace.worker.exchange.delivery import Delivery
    from tailrace.worker.execution.task import Task
    from tailrace.worker.worker_state import WorkerState

#: How much a new measurement of a value's cost counts.
_COST_WEIGHT = 0.2


class RemoteConsumer:
    """The place of another worker's task at the queue: what it was given and how much it is given at a time."""

    def __init__(self, box: Outbox, concurrency: int | None) -> None:
        self.box = box
        self._concurrency = concurrency
        #: What was given, with the number of tuples and when.
        self.claims: deque[tuple[list[Arrival], int, int]] = deque()
        self._given = 0
        self._done = 0
        self._done_ns = 0
        self._at_a_time = 1
        self._cost_ns: float | None = None

    @property
    def room(self) -> int:
        """How many tuples it may be given now.

        A task with work for less than a slice has its next hand-out beside it already, because asking takes a while;
        one whose single tuples take longer has none, because another may be free before it.
        """
        if self._concurrency is not None:
            return self._concurrency - self._given
        if self._at_a_time == 1:
            return 1 - self._given
        return self._at_a_time if self._given <= self._at_a_time else 0

    def give(self, arrivals: list[Arrival], batch: Batch, now_ns: int) -> None:
        """Let a claim go to the task."""
        self.claims.append((arrivals, len(batch), now_ns))
        self._given += len(batch)
        self.box.put(batch)
        self.box.since_ns = 0  # it has waited long enough

    def finish(self, tuples: int, now_ns: int, slice_ns: int) -> list[list[Arrival]]:
        """The task has worked off tuples: gives the claims that are done by that."""
        done: list[list[Arrival]] = []
        self._done += tuples
        if not self.claims:  # they went back to the queue
            self._done = 0
        while self.claims and self._done >= self.claims[0][1]:
            arrivals, count, given_ns = self.claims.popleft()
            self._done -= count
            self._given -= count
            self._learn((now_ns - max(given_ns, self._done_ns)) / count, slice_ns)
            done.append(arrivals)
        self._done_ns = now_ns
        return done

    def _learn(self, cost_ns: float, slice_ns: int) -> None:
        """Give as many as one slice of time is enough for, the way there and back included."""
        before_ns = cost_ns if self._cost_ns is None else self._cost_ns
        self._cost_ns = before_ns + _COST_WEIGHT * (cost_ns - before_ns)
        affordable = int(slice_ns / max(1.0, self._cost_ns))
        self._at_a_time = max(1, min(affordable, 2 * self._at_a_time, VALUES_PER_TURN_MAX))

    def leave(self) -> list[list[Arrival]]:
        """The task's worker is gone: gives all claims, newest first, and begins again."""
        claims = [arrivals for arrivals, _, _ in reversed(self.claims)]
        self.claims.clear()
        self.box.clear()
        self._given = self._done = 0
        return claims


class Group:
    """The tasks of one stage that share a queue, at its owner."""

    def __init__(
        self,
        worker: WorkerState,
        delivery: Delivery,
        own: dict[Task, Inbox],
        inbox: SharedInbox,
        consumers: list[RemoteConsumer],
    ) -> None:
        self.members = list(own)
        self.inbox = inbox
        self.consumers = consumers
        #: The inboxes the tasks had and may have again.
        self.own = own
        self._delivery = delivery
        self._worker = worker
        self._tracked = worker.program.policy.tracked
        self._slice_ns = worker.program.settings.slice_us * 1000
        for consumer in consumers:
            consumer.box.finished = self._finished_of(consumer)

    def wake(self) -> None:
        """Something waits, or all has ended: let everyone have it who is free."""
        if self.consumers:
            self._hand_out()
        if self.inbox.has_more:
            for member in self.members:
                self._worker.enqueue(member)

    def done(self, arrivals: list[Arrival]) -> None:
        """A task of this worker has done a piece of work."""
        if self.inbox.done(arrivals):
            self.wake()

    def _finished_of(self, consumer: RemoteConsumer) -> Callable[[int, int], None]:
        def finished(task: int, tuples: int) -> None:
            del task
            for arrivals in consumer.finish(tuples, self._worker.clock.now_ns(), self._slice_ns):
                self.inbox.done(arrivals)
                self._delivery.finished(arrivals)
            self.wake()

        return finished

    def release(self, slot: int) -> None:
        """A worker is lost: what its tasks had claimed waits again, in front.

        Not where roots are tracked: they are sent again, as an incarnation that guards look at twice, while the same
        incarnation might have been passed on already before its worker died.
        """
        for consumer in self.consumers:
            for arrivals in consumer.leave() if consumer.box.slot == slot else ():
                if self._tracked:
                    self.inbox.done(arrivals)
                    self._delivery.finished(arrivals)
                else:
                    self.inbox.release(arrivals)

    def _hand_out(self) -> None:
        inbox = self.inbox
        # What the threads of this worker can take at once is left to them: it has no way to go.
        kept = sum(max(0, member.pieces_max - member.in_flight) for member in self.members if member.mode != "inline")
        for consumer in list(self.consumers):
            if not inbox.waiting or inbox.tuples <= kept:
                break
            room = min(consumer.room, inbox.tuples - kept)
            if room > 0 and not consumer.box.ended and not self._worker.outgoing.holds(consumer.box.slot):
                self._give(consumer, room)
                self.consumers.remove(consumer)  # who has waited longest is first next time
                self.consumers.append(consumer)
        if inbox.ended:
            self._end()

    def _give(self, consumer: RemoteConsumer, values_max: int) -> None:
        worker = self._worker
        arrivals, batch = self.inbox.take(values_max)
        for channel, _, _ in arrivals:
            if channel.credit_due:
                self._delivery.credit(channel)
        consumer.give(arrivals, batch, worker.clock.now_ns())
        worker.dirty[consumer.box] = None

    def _end(self) -> None:
        for consumer in self.consumers:
            if not consumer.box.ended:
                consumer.box.ended = True
                self._worker.dirty[consumer.box] = None
