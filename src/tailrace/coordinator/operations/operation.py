"""An operation as the coordinator keeps it: the state it is in, what it waits for, why it was asked for, how it ended.

The base of all kinds. A kind declares a table of states, each with what is done on entering it, what follows, a
deadline, and whether it can still be undone; ``machine`` takes it from one to the next and knows no kind. An operation
reads what the coordinator knows (``ClusterView``) and changes it by instructions only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from tailrace import protocol
from tailrace.coordinator.operations.instructions import GiveUp, Tell
from tailrace.program.errors import MoveError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tailrace.coordinator.operations.cluster import ClusterView
    from tailrace.coordinator.operations.events import Heard
    from tailrace.coordinator.operations.instructions import Instruction
    from tailrace.errors import TailraceError

#: The states that every operation has besides those of its kind.
WAITING = "waiting"
DONE = "done"
UNDONE = "undone"


class Awaited(NamedTuple):
    """Something that a worker has yet to say, about one row of the order it answers or, -1, about the whole."""

    what: str
    slot: int
    row: int = -1


def _nothing() -> tuple[Instruction, ...]:
    return ()


def _at_once() -> bool:
    return True


@dataclass(frozen=True)
class OperationState:
    """One state of an operation, as its kind declares it."""

    #: Sets what is awaited and gives the instructions.
    enter: Callable[[], Iterable[Instruction]]
    #: The state that follows once nothing is awaited and it is ``ready``.
    then: str
    #: How long it may take: then it is undone or, where it is decided, goes on without whoever does not follow.
    limit_s: float
    #: Whether it cannot be undone any more.
    decided: bool = False
    #: Whether tuples stand still in it.
    pauses: bool = False
    #: What it waits for besides what workers have to say.
    ready: Callable[[], bool] = _at_once
    #: Instructions on the way to what follows.
    leave: Callable[[], Iterable[Instruction]] = _nothing


class Operation(ABC):
    """Something that all workers carry out together, or that is undone by all."""

    #: Of those that wait the highest is begun first.
    priority: ClassVar[int] = 0
    #: Whether asking for it undoes what is under way, unless that is decided or goes before it.
    preempts: ClassVar[bool] = False
    #: Whether one that waits does for all that are asked for meanwhile: it looks what is to be done when it begins.
    single: ClassVar[bool] = False
    #: Whether ``lastProgress`` tells of it.
    shown: ClassVar[bool] = False

    def __init__(self, cluster: ClusterView, why: str) -> None:
        self.cluster = cluster
        self.why = why
        #: ``waiting``, one of its kind's, ``done`` or ``undone``.
        self.state = WAITING
        self.reason = ""
        self.hint = ""
        self.epoch = 0
        self.entered_ns = 0
        self.paused_ns = 0
        #: What is yet to be heard before the next state.
        self.awaited: set[Awaited] = set()

    # -- what a kind declares ------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def states(self) -> Mapping[str, OperationState]:
        """The states of this kind by name."""

    @abstractmethod
    def begin(self) -> str:
        """Look what is left to do; gives the first state, or ``done``, or ``undone`` with ``reason`` set."""

    def may_begin(self) -> bool:
        """Whether it can begin, and go on to a state that can be undone, with the workers there are."""
        return self.cluster.everyone_open

    def hear(self, event: Heard) -> None:
        """Take in what a worker says about it."""
        if isinstance(event.message, protocol.Switched):
            self.awaited.discard(Awaited("switched", event.slot))
        elif isinstance(event.message, protocol.Cleared):
            self.awaited.discard(Awaited("cleared", event.slot, event.message.row))
        elif isinstance(event.message, protocol.Installed):
            self.awaited.discard(Awaited("installed", event.slot, event.message.row))

    def opened(self, slot: int) -> None:
        """Take in that a worker has opened its tasks."""
        self.awaited.discard(Awaited("opened", slot))

    def lost(self, slot: int) -> str:
        """Take in that a worker was lost; gives the reason to undo it for that, or nothing."""
        self.awaited = {each for each in self.awaited if each.slot != slot}
        return "" if self.decided else f"worker {slot} was lost"

    def overdue(self) -> Iterable[Instruction]:
        """Go on where a decided state takes too long: whoever does not follow is taken for lost."""
        yield GiveUp(tuple(sorted({each.slot for each in self.awaited})))

    def undo(self) -> Iterable[Instruction]:
        """Let all workers go on as before."""
        yield Tell(protocol.Undo(self.epoch))

    def finish(self) -> Iterable[Instruction]:
        """Close it when it is carried out."""
        return ()

    def missing(self) -> list[str]:
        """What it still waits for, for people."""
        return sorted({self.described(each) for each in self.awaited})

    def described(self, awaited: Awaited) -> str:
        """Say what one awaited word stands for."""
        return f"worker {awaited.slot} has yet to say {awaited.what!r}"

    def moves(self) -> list[str]:
        """What moves, for people."""
        return []

    def failure(self) -> TailraceError:
        """The named error of one that was undone."""
        return MoveError(self.reason, self.hint)

    # -- what others ask -----------------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether it was carried out or given up."""
        return self.state in {DONE, UNDONE}

    @property
    def decided(self) -> bool:
        """Whether it is in a state that cannot be undone."""
        return self.state in self.states and self.states[self.state].decided

    @property
    def phase(self) -> str:
        """What users are told: ``waiting``, ``moving``, ``switching``, ``done`` or ``undone``."""
        return self.state if self.state not in self.states else "switching" if self.decided else "moving"

    @property
    def pause_ms(self) -> float:
        """How long tuples stood still for it."""
        return self.paused_ns * 1e-6

    def everyone(self, what: str) -> set[Awaited]:
        """Await a word of every worker that is open."""
        return {Awaited(what, slot) for slot in self.cluster.open_slots}
