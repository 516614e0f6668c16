"""Operators as plain data (specs and edges) and the classes a user may derive an operator from.

``graph`` and ``streams`` make the specs, ``validate`` checks them, the worker runs them. Nothing here runs anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar, get_args, runtime_checkable

from tailrace.state.named import KeptState

if TYPE_CHECKING:
    import logging

    from tailrace.state.declared import States

    from ..clock import Clock
    from .groupings import Grouping

S = TypeVar("S")

Kind = Literal["source", "transform", "sink"]
Verb = Literal[
    "source",
    "map",
    "filter",
    "flat_map",
    "map_batches",
    "process",
    "reduce",
    "count",
    "aggregate",
    "keyed_process",
    "branch",
    "sink",
]
ErrorPolicy = Literal["fail", "skip", "dead_letter"]
ERROR_POLICIES: frozenset[str] = frozenset(get_args(ErrorPolicy))
KEYED_VERBS: frozenset[str] = frozenset({"reduce", "count", "aggregate", "keyed_process"})
#: Verbs that emit ``(key, value)``: what is known of a key, again with every value of it unless told otherwise.
UPDATE_VERBS: frozenset[str] = frozenset({"reduce", "count", "aggregate"})
#: ``update`` emits with every value that comes in, ``final`` once per key when the stream has ended.
Emit = Literal["update", "final"]
EMITS: frozenset[str] = frozenset(get_args(Emit))

PORT_OUT = "out"
PORT_REST = "rest"
PORT_DEAD = "dead"

TASKS_MAX = 10_000
CONCURRENCY_DEFAULT = 64

Outputs = Iterable[Any] | None


@dataclass(frozen=True)
class TaskContext:
    """What a task knows of its surroundings; handed to ``open`` of operators and sinks."""

    operator: str
    task: int
    tasks: int
    query: str
    logger: logging.Logger
    clock: Clock
    emit_to_driver: Callable[[Any], None]
    #: Of a query with a checkpoint: what tells it from others, its starts on it, and its deployments in this start.
    checkpoint: str = ""
    attempt: int = 0
    execution: int = 0


class State(Protocol[S]):
    """The state of one key of one operator; None until it is set and after it is cleared.

    It holds for the call it was handed to: the next call may find the same object pointing at another key.
    """

    value: S | None

    def get(self) -> S | None:
        """Return the state of the key at hand, None if there is none."""
        ...

    def set(self, value: S) -> None:
        """Replace the state of the key at hand."""
        ...

    def clear(self) -> None:
        """Forget the key at hand."""
        ...


class Operator:
    """Base of operators written as a class; each task gets a copy of its own.

    Every method may return an iterable of values to emit, or None. ``process`` may be ``async def``: then several calls
    are open at once, up to the operator's ``concurrency``. Set ``tick_every_s`` to have ``tick`` called.
    """

    tick_every_s: ClassVar[float | None] = None
    #: Whether objects of this class remember anything of the values they saw. Set it to False for a class that only
    #: holds connections and the like: then a query does not fail when a worker is lost that had one.
    stateful: ClassVar[bool] = True

    def open(self, ctx: TaskContext) -> None:
        """Get ready; called once in the task's process before the first value."""

    # Open arguments, so that type checkers let a KeyedOperator take others than a plain operator.
    def process(self, *args: Any, **kwargs: Any) -> Outputs | Awaitable[Outputs]:
        """Take one value in; define it as ``process(self, value)``."""
        raise NotImplementedError

    def tick(self, now_s: float) -> Outputs:  # noqa: ARG002 - part of the interface
        """Act on the passing of time; called about every ``tick_every_s`` seconds of the task's clock."""
        return None

    def close(self) -> Outputs:
        """Give out what is left and let go of resources; called once after the last value."""
        return None

    def snapshot(self) -> Any:
        """Tell what must go along when the task moves to another worker; all attributes but the context by default."""
        return attributes_of(self)

    def restore(self, state: Any) -> None:
        """Go on from what ``snapshot`` told, in a new object that was opened already."""
        vars(self).update(state)


@runtime_checkable
class HasSnapshot(Protocol):
    """An object that tells what must go along with its task: every Operator and Sink, and any other that can."""

    def snapshot(self) -> Any:
        """Tell what must go along."""
        ...


@runtime_checkable
class HasRestore(Protocol):
    """An object that goes on from what a snapshot told."""

    def restore(self, state: Any) -> None:
        """Go on from there."""
        ...


def attributes_of(user: Any) -> dict[str, Any]:
    """What an object has by itself: its attributes, without the context it was opened with and its states by key."""
    return {name: value for name, value in vars(user).items() if not isinstance(value, TaskContext | KeptState)}


class KeyedOperator(Operator):
    """Base of operators with state per key; for ``stream.key_by(...).process(...)``.

    States of a kind are declared as attributes of the class, ``seen = tr.ValueState(int, ttl="10 minutes")`` for
    instance, and used as ``self.seen`` in ``process``: they are those of its key.
    """

    def process(self, *args: Any, **kwargs: Any) -> Outputs:
        """Take in one value of a key, with that key's state; define it as ``process(self, key, value, state)``."""
        raise NotImplementedError


class Aggregation(NamedTuple):
    """The parts of ``aggregate``: how a key's accumulator begins, takes a value in and turns into a result."""

    init: Callable[[], Any]
    add: Callable[[Any, Any], Any]
    result: Callable[[Any], Any] | None = None


BATCH_KINDS = ("arrow", "pandas", "polars")


class BatchFunction(NamedTuple):
    """A function over batches, and the library whose batches it takes."""

    fn: Callable[[Any], Any]
    of: str


@dataclass(frozen=True)
class OperatorSpec:
    """One operator of a topology as plain data.

    ``fn`` is the user's function, an Operator (instance or class), a Source, a Sink, the predicates of a branch, an
    Aggregation, a BatchFunction, or None for count. ``tasks`` of None is filled in from upstream (see ``counts``).
    """

    name: str
    kind: Kind
    verb: Verb
    fn: Any
    key: Callable[[Any], Any] | None = None
    tasks: int | None = None
    on_error: ErrorPolicy = "fail"
    blocking: bool = False
    concurrency: int = CONCURRENCY_DEFAULT
    deterministic: bool = True
    ordered: bool = False
    emit: Emit = "update"
    #: The states that a keyed function declares.
    states: type[States] | None = None

    @property
    def ports(self) -> tuple[str, ...]:
        """The ports that streams may be read from."""
        dead = (PORT_DEAD,) if self.on_error == "dead_letter" else ()
        if self.kind == "sink":
            return dead
        if self.verb == "branch":
            return (*(str(i) for i in range(len(self.fn))), PORT_REST, *dead)
        return (PORT_OUT, *dead)


def holds_state(spec: OperatorSpec) -> bool:
    """Whether tasks of an operator remember what they saw: state by key, or a user's object that does not deny it."""
    if spec.verb in KEYED_VERBS:
        return True
    return spec.verb == "process" and hasattr(spec.fn, "process") and bool(getattr(spec.fn, "stateful", True))


@dataclass(frozen=True)
class EdgeSpec:
    """One edge: tuples leaving ``src`` at ``port`` go to tasks of ``dst`` chosen by the grouping."""

    src: str
    port: str
    dst: str
    grouping: Grouping


@dataclass(frozen=True)
class DeadLetter:
    """A value that made an operator fail, as found in the stream ``dead_letters()``."""

    operator: str
    task: int
    value: Any
    error: str
    traceback: str
