"""The operation machine: one operation at a time through its states, the others in a queue in front. Knows no kind.

Events go in with the clock's reading, instructions come out, and each is carried out before the next is made:

    waiting -> the states of its kind, one after the other -> done
                        |                        ^
                        v                        | decided: cannot be undone, goes on without whoever is lost
                      undone                     |

An operation begins when everyone it needs is there, under an epoch of its own. One that is not decided is undone when
a worker says that it cannot, when one is lost, when its state has taken too long, when the query is being stopped, or
when one is asked for that goes before it (``preempts``). *Starters* begin operations by themselves, by the clock or
because of an event. A checkpoint (ask for marks, order the cut, await that all parts are written, publish) will be a
kind beside those that are here, with a starter that looks at the clock; a recovery another one, above all others,
whose starter looks at ``Lost`` and whose ``may_begin`` does with the workers that live.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from tailrace.coordinator.operations import events
from tailrace.coordinator.operations.operation import DONE, UNDONE
from tailrace.program.errors import MoveError
from tailrace.protocol import OperationFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.coordinator.operations.events import Event
    from tailrace.coordinator.operations.instructions import Instruction
    from tailrace.coordinator.operations.operation import Operation

_NS_PER_S = 1_000_000_000
#: Operations that may wait for their turn, besides those of which one does for all.
WAITING_MAX = 16
#: Operations of which ``lastProgress`` tells.
TOLD_MAX = 16


class Starter(Protocol):
    """Begins operations by itself."""

    def on_event(self, event: Event, now_ns: int) -> Operation | None:
        """Look at an event; gives the operation that is to be carried out because of it, if any."""
        ...


class OperationMachine:
    """The operations of one query."""

    def __init__(self, starters: Sequence[Starter] = ()) -> None:
        self._starters = starters
        self.waiting: deque[Operation] = deque()
        self.active: Operation | None = None
        self.epoch = 0
        #: The newest that users are told of, oldest first.
        self.told: deque[Operation] = deque(maxlen=TOLD_MAX)
        #: Why nothing more begins.
        self._stopping = ""

    @property
    def idle(self) -> bool:
        """Whether nothing is under way or waits."""
        return self.active is None and not self.waiting

    def check_room(self, wanted: int = 1) -> None:
        """Refuse operations for which there is no room in the queue."""
        if sum(not each.single for each in self.waiting) + wanted > WAITING_MAX:
            raise MoveError(f"{WAITING_MAX} operations wait already.", "Wait until some are carried out.")

    def handle(self, event: Event, now_ns: int) -> Iterator[Instruction]:
        """Take an event in; what it gives must be carried out one by one, to the end."""
        match event:
            case events.Asked(operation=operation):
                yield from self._ask(operation, now_ns)
            case events.Heard():
                yield from self._hear(event, now_ns)
            case events.Opened(slot=slot):
                if self.active is not None:
                    self.active.opened(slot)
            case events.Lost(slot=slot):
                if self.active is not None and (reason := self.active.lost(slot)):
                    yield from self._undo(self.active, reason, now_ns)
            case events.Stopping(reason=reason):
                yield from self._stop(reason, now_ns)
            case events.Passed():
                pass
        for starter in self._starters:
            if (found := starter.on_event(event, now_ns)) is not None:
                yield from self._ask(found, now_ns)
        yield from self._go_on(now_ns)
        if isinstance(event, events.Passed):
            yield from self._pass_time(now_ns)

    # -- the queue -----------------------------------------------------------------------------------------------

    def _ask(self, operation: Operation, now_ns: int) -> Iterator[Instruction]:
        if self._stopping:
            operation.state, operation.reason = UNDONE, self._stopping
            return
        if operation.single:
            if any(type(each) is type(operation) for each in self.waiting):
                return
        else:
            self.check_room()
        ahead = sum(each.priority >= operation.priority for each in self.waiting)
        self.waiting.insert(ahead, operation)
        active = self.active
        if active is not None and operation.preempts and operation.priority > active.priority and not active.decided:
            yield from self._undo(active, f"{operation.why} goes before it", now_ns)

    def _begin(self, operation: Operation, now_ns: int) -> Iterator[Instruction]:
        if operation.shown:
            self.told.append(operation)
        self.epoch += 1
        operation.epoch = self.epoch
        first = operation.begin()
        if first in operation.states:
            self.active = operation
            yield from self._enter(operation, first, now_ns)
            yield from self._go_on(now_ns)
        else:
            operation.state = first

    def _pass_time(self, now_ns: int) -> Iterator[Instruction]:
        """Keep the deadline of what is under way; begin what is next."""
        active = self.active
        if active is not None:
            state = active.states[active.state]
            if now_ns - active.entered_ns > state.limit_s * _NS_PER_S:
                if state.decided:
                    active.entered_ns = now_ns
                    yield from active.overdue()
                else:
                    missing = "; ".join(active.missing())
                    yield from self._undo(active, f"it took longer than {state.limit_s:g} s: {missing}", now_ns)
        if self.active is None and self.waiting and self.waiting[0].may_begin():
            yield from self._begin(self.waiting.popleft(), now_ns)

    # -- one operation -------------------------------------------------------------------------------------------

    def _hear(self, event: events.Heard, now_ns: int) -> Iterator[Instruction]:
        active, message = self.active, event.message
        if active is None or active.epoch != message.epoch:
            return  # of one that is over
        if not isinstance(message, OperationFailed):
            active.hear(event)
        elif not active.decided:
            active.hint = message.hint
            yield from self._undo(active, message.message, now_ns)

    def _go_on(self, now_ns: int) -> Iterator[Instruction]:
        """Go to the next state, and the next, as long as nothing is awaited."""
        while (operation := self.active) is not None:
            state = operation.states[operation.state]
            if operation.awaited or not state.ready():
                return
            self._account(operation, now_ns)
            yield from state.leave()
            if state.then == DONE:
                operation.state = DONE
                self.active = None
                yield from operation.finish()
            else:
                yield from self._enter(operation, state.then, now_ns)

    def _enter(self, operation: Operation, name: str, now_ns: int) -> Iterator[Instruction]:
        operation.entered_ns = now_ns
        state = operation.states[name]
        if not state.decided and (reason := self._why_not(operation)):
            yield from self._undo(operation, reason, now_ns)
            return
        operation.state = name
        operation.awaited = set()
        yield from state.enter()

    def _why_not(self, operation: Operation) -> str:
        """Why an operation should not go on to a state that can be undone: what happened while it was decided."""
        return self._stopping or ("" if operation.may_begin() else "a worker was lost")

    def _undo(self, operation: Operation, reason: str, now_ns: int) -> Iterator[Instruction]:
        self._account(operation, now_ns)
        operation.reason = reason
        operation.state = UNDONE
        self.active = None
        yield from operation.undo()
        operation.awaited = set()

    def abandon(self, now_ns: int) -> None:
        """Everyone begins again from a cut: what is under way ends without a word, as decided or as undone."""
        operation = self.active
        if operation is not None:
            self._account(operation, now_ns)
            operation.state = DONE if operation.decided else UNDONE
            operation.reason = "" if operation.decided else "a worker was lost"
            operation.awaited = set()
            self.active = None

    def _account(self, operation: Operation, now_ns: int) -> None:
        state = operation.states.get(operation.state)
        if state is not None and state.pauses:
            operation.paused_ns += now_ns - operation.entered_ns

    def _stop(self, reason: str, now_ns: int) -> Iterator[Instruction]:
        self._stopping = reason
        for operation in self.waiting:
            operation.state, operation.reason = UNDONE, reason
        self.waiting.clear()
        if self.active is not None and not self.active.decided:
            yield from self._undo(self.active, reason, now_ns)
