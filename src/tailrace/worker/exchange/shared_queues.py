"""Tasks that take from one queue: those of this worker by themselves, those of its node's other workers by hand-outs.

The queue is at the group's *home* (``receiving.homes``), one logical task towards senders: credits, ends and losses are
those of any inbox. A task of another worker has a *seat* at the home: a channel of its own, on which it is given as
much as it works off in one slice of time and more only when that is done, so that what it holds is a claim. When its
worker is lost the claims go back to the queue, or their roots are sent again. Called by ``delivery``; may touch the
floor.
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
    from tailrace.worker.worker_state import Floor

#: How much a new measurement of a value's cost counts.
_COST_WEIGHT = 0.2


class Seat:
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
        """The task's worker is gone: gives all claims, newest first, and begins anew."""
        claims = [arrivals for arrivals, _, _ in reversed(self.claims)]
        self.claims.clear()
        self.box.clear()
        self._given = self._done = 0
        return claims


class Group:
    """The tasks of one stage that share a queue, at its home."""

    def __init__(self, floor: Floor, mates: list[Task], inbox: SharedInbox, seats: list[Seat]) -> None:
        self.mates = mates
        self.inbox = inbox
        self.seats = seats
        #: The inboxes the tasks had and may have again.
        self.own: dict[Task, Inbox] = {}
        self.delivery: Delivery
        self._floor = floor
        self._tracked = floor.program.policy.tracked
        self._slice_ns = floor.program.settings.slice_us * 1000
        for seat in seats:
            seat.box.finished = self._finished_of(seat)

    def wake(self) -> None:
        """Something waits, or all has ended: let everyone have it who is free."""
        if self.seats:
            self._hand_out()
        if self.inbox.has_more:
            for mate in self.mates:
                self._floor.enqueue(mate)

    def done(self, arrivals: list[Arrival]) -> None:
        """A task of this worker has done a piece of work."""
        if self.inbox.done(arrivals):
            self.wake()

    def _finished_of(self, seat: Seat) -> Callable[[int, int], None]:
        def finished(task: int, tuples: int) -> None:
            del task
            for arrivals in seat.finish(tuples, self._floor.clock.now_ns(), self._slice_ns):
                self.inbox.done(arrivals)
                self.delivery.finished(arrivals)
            self.wake()

        return finished

    def release(self, slot: int) -> None:
        """A worker is lost: what its tasks had claimed waits again, in front.

        Not where roots are tracked: they are sent again, as an incarnation that guards look at twice, while the same
        incarnation might have been passed on already before its worker died.
        """
        for seat in self.seats:
            for arrivals in seat.leave() if seat.box.slot == slot else ():
                if self._tracked:
                    self.inbox.done(arrivals)
                    self.delivery.finished(arrivals)
                else:
                    self.inbox.release(arrivals)

    def _hand_out(self) -> None:
        inbox = self.inbox
        # What the threads of this worker can take at once is left to them: it has no way to go.
        kept = sum(max(0, mate.pieces_max - mate.in_flight) for mate in self.mates if mate.mode != "inline")
        for seat in list(self.seats):
            if not inbox.waiting or inbox.tuples <= kept:
                break
            room = min(seat.room, inbox.tuples - kept)
            if room > 0 and not seat.box.ended and not self._floor.post.holds(seat.box.slot):
                self._give(seat, room)
                self.seats.remove(seat)  # who has waited longest is first next time
                self.seats.append(seat)
        if inbox.ended:
            self._end()

    def _give(self, seat: Seat, values_max: int) -> None:
        floor = self._floor
        arrivals, batch = self.inbox.take(values_max)
        for channel, _, _ in arrivals:
            if channel.consumed - channel.reported >= channel.credit_step:
                self.delivery.credit(channel)
        seat.give(arrivals, batch, floor.clock.now_ns())
        floor.dirty[seat.box] = None

    def _end(self) -> None:
        for seat in self.seats:
            if not seat.box.ended:
                seat.box.ended = True
                self._floor.dirty[seat.box] = None
