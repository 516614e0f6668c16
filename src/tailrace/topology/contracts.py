"""What a source and a sink are to the runtime: the interfaces that every connector implements.

The driver asks a source for its partitions; workers open readers and write to sinks, always in whole batches, because
work per batch is cheap and work per record is not. Connectors may touch files and sockets, never the runtime.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.clock import Clock
    from tailrace.topology.operators import TaskContext

T_co = TypeVar("T_co", covariant=True)

OFFSET_MAX = 2**47 - 1


class Records(NamedTuple):
    """A batch from one partition: values, their offsets and, open loop, when each was due on the reader's clock."""

    offsets: Sequence[int]
    values: list[Any]
    due_ns: Sequence[int] | None = None


class Unreadable:
    """Stands among the values of ``Records`` for a record that is there but cannot be made sense of.

    What becomes of it is up to the source's ``on_error``; ``error`` ends the query under ``fail``. What a reader raises
    concerns the input as a whole and always ends the query.
    """

    def __init__(self, raw: Any, error: Exception) -> None:
        self.raw = raw
        self.error = error


NO_RECORDS = Records((), [])


class Reader(ABC):
    """Reads one partition from an offset on. Used by one thread at a time.

    ``wakeup`` lets the worker look again, from any thread; it is set before the first read. A reader whose records
    someone waits for sets ``prompt``: the coordinator then hears of what is complete within moments, not with the next
    report.
    """

    prompt: bool = False
    wakeup: Callable[[], None] = staticmethod(lambda: None)

    @abstractmethod
    def read(self, max_records: int) -> Records:
        """Return what is there now, at most so many records; never wait longer than about a millisecond.

        A record that cannot be decoded is an ``Unreadable`` among the values; what is raised ends the query.
        """

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether no record will ever come again."""

    def wait_s(self) -> float:
        """Tell how long it is until a read may give something; 0 is now."""
        return 0.0

    def commit(self, offset: int) -> None:  # noqa: B027 - optional
        """Learn that every record below the offset is complete and will not be asked for again."""

    def close(self) -> None:  # noqa: B027 - optional
        """Let go of files and sockets."""


class Source(ABC, Generic[T_co]):
    """A replayable input: partitions with stable names, records with stable offsets.

    Offsets are whole numbers from 0 to OFFSET_MAX that grow strictly within a partition and mean the same record after
    a restart; they need not be dense. A source travels to the workers, so it holds settings and no open resources.
    """

    label: str = "source"
    bounded: bool = True
    #: Whether another worker may open a partition where this one has stopped, in the midst of a query.
    movable: bool = True
    #: Whether what a partition holds hangs on how many there are: none may be added to those of a savepoint then.
    divided: bool = False

    @abstractmethod
    def partitions(self) -> list[str]:
        """Name the partitions, on the driver; raise a named error if the input cannot be read."""

    @abstractmethod
    def open(self, partition: str, offset: int, clock: Clock) -> Reader:
        """Open a partition at its first record whose offset is at least this one."""


#: What readers of a sink's target see of a tuple that was sent again after a loss.
Delivery = Literal["at_least_once", "idempotent", "transactional"]


@runtime_checkable
class Transactional(Protocol):
    """A sink that publishes what it took in when an epoch of a checkpoint is durable, and not before.

    ``prepare`` and ``snapshot`` come between two writes, ``commit`` too; none of them beside another. With a checkpoint
    ``close`` comes last and publishes nothing. Without one ``prepare(1)`` and ``commit(1)`` come at the end, in front
    of ``close``; what is lost with a worker before fails the query, as keyed state does.
    """

    def prepare(self, epoch: int) -> Callable[[], object] | None:
        """All that was written and not prepared yet belongs to this epoch from now on.

        What it returns is called by another thread, beside further writes, and makes that durable; the epoch counts
        only if it returns, and it is called again with the next epoch if it did not. ``snapshot`` comes right after.
        """
        ...

    def commit(self, epoch: int) -> None:
        """Publish an epoch that was prepared: it is durable now. Called again after a recovery, maybe elsewhere."""
        ...

    def abort(self, epoch: int) -> None:
        """Nothing that was written or prepared for this epoch or a later one is ever to be published.

        Called once where a task begins, in a new object that was opened and has what ``restore`` gave it.
        """
        ...


@dataclass(frozen=True)
class SinkStart:
    """How a query begins, for its sinks on the driver: with a checkpoint, and going on from what it finds in it."""

    durable: bool = False
    resumed: bool = False


class Sink(ABC):
    """An output; each task of the operator writes to a copy of its own.

    Set ``idempotent`` where writing the same value twice has the effect of writing it once, ``atomic`` where a write
    that raises has written nothing, and ``wants_origins`` to have ``write_origins`` called in place of ``write``. A
    class with ``prepare``, ``commit`` and ``abort`` is ``Transactional``. Where ``remembered`` is set, a driver that
    goes on from a checkpoint gives ``receive_from`` again what the one before it had given.
    """

    label: str = "sink"
    idempotent: bool = False
    atomic: bool = False
    wants_origins: bool = False
    remembered: bool = False

    def delivery(self, *, durable: bool) -> Delivery:
        """What readers get, with a checkpoint (``durable``) and without."""
        del durable
        if isinstance(self, Transactional):
            return "transactional"
        return "idempotent" if self.idempotent else "at_least_once"

    def open(self, ctx: TaskContext) -> None:  # noqa: B027 - optional
        """Get ready; called once in the task's process before the first write."""

    @abstractmethod
    def write(self, values: list[Any]) -> None:
        """Take in a batch."""

    def write_origins(self, values: list[Any], origins: list[int] | None) -> None:
        """Take in a batch with a number per value, the same for every incarnation of its root; None if untracked."""
        del origins
        self.write(values)

    def close(self) -> None:  # noqa: B027 - optional
        """Make what was written durable and let go of resources; called once after the last write."""

    def snapshot(self) -> Any:
        """Tell what must go along when the task moves to another worker; nothing unless a sink says otherwise."""
        return None

    def restore(self, state: Any) -> None:
        """Go on from what ``snapshot`` told, in a copy that was opened already; a dict is attributes by default."""
        if state is not None:
            vars(self).update(state)

    def preflight(self) -> None:  # noqa: B027 - optional
        """On the driver, before Spark starts, raise a named error if this cannot be written to; changes nothing."""

    def preflight_durable(self) -> None:
        """``preflight`` of a query with a checkpoint, which may have written here before."""
        self.preflight()

    def begin_from(self, start: SinkStart) -> None:
        """``begin`` with more to go by."""
        del start
        self.begin()

    def begin(self) -> None:  # noqa: B027 - optional
        """On the driver, forget what an earlier query left in this object; called when a query starts."""

    def receive(self, values: Any) -> None:  # noqa: B027 - optional
        """On the driver, take in what a task gave to ``ctx.emit_to_driver``; called on the object the user made."""

    def receive_from(self, task: int, number: int, values: Any) -> None:
        """On the driver, take in the values of a task's message of this number; ``receive`` with more to go by."""
        del task, number
        self.receive(values)

    def rewind(self, numbers: dict[int, int]) -> None:  # noqa: B027 - optional
        """On the driver, learn that all tasks went back: each message of a task from its number on comes again.

        A sink that does not care gives what it receives at least once.
        """

    def attend(self) -> None:  # noqa: B027 - optional
        """On the driver, do what time asks for; called several times a second while the query runs."""

    def finish(self, error: Exception | None) -> None:  # noqa: B027 - optional
        """On the driver, learn that the query has ended, and what it failed with if it failed."""


def delivery_of(sink: Any, *, durable: bool) -> Delivery:
    """What readers of a sink get; of one that only has a sink's methods, by those it has."""
    if isinstance(sink, Sink):
        return sink.delivery(durable=durable)
    return "transactional" if isinstance(sink, Transactional) else "at_least_once"
