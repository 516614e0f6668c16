"""Streams: what the operators of a topology hand on, and the methods that add the next operator.

A stream is a small value that remembers which ports it reads and how; every method either returns another such value
(groupings, union) or adds one operator to the topology. Nothing runs here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from tailrace.state.declared import States

from . import groupings
from .applied import Output
from .errors import ErrorPolicyError, GroupingError, UnionError
from .groupings import Direct, Grouping
from .keys import Field
from .operators import (
    PORT_DEAD,
    PORT_OUT,
    PORT_REST,
    Aggregation,
    BatchFunction,
    DeadLetter,
    KeyedOperator,
    Operator,
    State,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tailrace.topology.contracts import Sink

    from .graph import Topology
    from .operators import Verb
    from .options import CallOptions, KeyedOptions, SinkOptions, UpdateOptions

T = TypeVar("T")
U = TypeVar("U")
A = TypeVar("A")
K = TypeVar("K", bound=Hashable)
S = TypeVar("S", bound=States)


@dataclass(frozen=True)
class Origin:
    """A port that a stream reads, and the grouping its tuples will be sent under."""

    operator: str
    port: str
    grouping: Grouping = groupings.AUTO


def _dead_letters(topology: Topology, operators: Iterable[str]) -> Stream[DeadLetter]:
    names = tuple(dict.fromkeys(operators))
    for name in names:
        policy = topology.operators[name].on_error
        if policy != "dead_letter":
            raise ErrorPolicyError(
                f"Dead letters come from operators with on_error='dead_letter', and {name!r} has on_error={policy!r}.",
                f"Add on_error='dead_letter' where {name!r} is drawn.",
            )
    return Stream(topology, tuple(Origin(name, PORT_DEAD) for name in names))


class Sunk:
    """The end of a stream; all that is left to read is what the sink could not write."""

    def __init__(self, topology: Topology, name: str) -> None:
        self.topology = topology
        self.name = name

    def dead_letters(self) -> Stream[DeadLetter]:
        """Read what made the sink fail; it needs ``on_error="dead_letter"``."""
        return _dead_letters(self.topology, (self.name,))


class BaseStream(Generic[T]):
    """What plain and keyed streams have in common."""

    def __init__(self, topology: Topology, origins: tuple[Origin, ...], *, ordered: bool = False) -> None:
        self.topology = topology
        self.origins = origins
        self.ordered = ordered

    def _add(
        self, verb: Verb, fn: object, options: Mapping[str, Any], key: Callable[[T], Any] | None = None
    ) -> Stream[Any]:
        name = self.topology.add(verb, fn, self.origins, options, key=key, ordered=self.ordered)
        return Stream(self.topology, (Origin(name, PORT_OUT),))

    @overload
    def map(self, fn: Callable[[T], Awaitable[U]], **options: Unpack[CallOptions]) -> Stream[U]: ...
    @overload
    def map(self, fn: Callable[[T], U], **options: Unpack[CallOptions]) -> Stream[U]: ...
    def map(self, fn: Callable[[T], Any], **options: Unpack[CallOptions]) -> Stream[Any]:
        """Emit ``fn(value)`` for each value."""
        return self._add("map", fn, options)

    def filter(self, fn: Callable[[T], object], **options: Unpack[CallOptions]) -> Stream[T]:
        """Let those values pass for which ``fn(value)`` is true."""
        return self._add("filter", fn, options)

    @overload
    def flat_map(self, fn: Callable[[T], Awaitable[Iterable[U]]], **options: Unpack[CallOptions]) -> Stream[U]: ...
    @overload
    def flat_map(self, fn: Callable[[T], Iterable[U]], **options: Unpack[CallOptions]) -> Stream[U]: ...
    def flat_map(self, fn: Callable[[T], Any], **options: Unpack[CallOptions]) -> Stream[Any]:
        """Emit each value of the iterable ``fn(value)``."""
        return self._add("flat_map", fn, options)

    def map_batches(
        self, fn: Callable[[Any], Any], *, of: str = "arrow", **options: Unpack[SinkOptions]
    ) -> Stream[Any]:
        """Run a function once over all rows that wait: few when the topology is idle, many when it is busy.

        ``of`` says what it gets and gives: ``"arrow"`` record batches, ``"pandas"`` or ``"polars"`` DataFrames. Rows in
        become columns (bare values one called ``value``) and rows again; then it must give as many as it gets. Values
        that are Arrow batches already are handed over as they are, and may grow and shrink.
        """
        return self._add("map_batches", BatchFunction(fn, of), options)

    def branch(self, *predicates: Callable[[T], object], **options: Unpack[KeyedOptions]) -> tuple[Stream[T], ...]:
        """Split: one stream per predicate, and a last one for the rest; the first predicate that holds wins.

        >>> errors, warnings, rest = events.branch(is_error, is_warning)
        """
        name = self._add("branch", predicates, options).origins[0].operator
        ports = (*(str(index) for index in range(len(predicates))), PORT_REST)
        return tuple(Stream(self.topology, (Origin(name, port),)) for port in ports)

    @overload
    def key_by(self, fn: str, *, ordered: bool = False) -> KeyedStream[Any, T]: ...
    @overload
    def key_by(self, fn: Callable[[T], K], *, ordered: bool = False) -> KeyedStream[K, T]: ...
    def key_by(self, fn: Callable[[T], Any] | str, *, ordered: bool = False) -> KeyedStream[Any, T]:
        """Send values of equal ``fn(value)`` to the same task, which may keep state for each key.

        A string names a field: an item of dicts and Rows, an attribute of structs, dataclasses and other objects.
        With ``ordered=True`` the order of a key's values holds under all circumstances, at the price of no replays for
        the sake of the latency tail.
        """
        key = Field(fn) if isinstance(fn, str) and fn else fn
        if not callable(key):
            raise GroupingError(
                f"key_by needs a function from a value to its key, or a field's name; found {fn!r}.",
                "Give a function such as `lambda v: v[0]`, operator.itemgetter(...), or a name such as 'user'.",
            )
        origins = tuple(replace(origin, grouping=Grouping("fields", key)) for origin in self.origins)
        return KeyedStream(self.topology, origins, key, ordered=ordered)

    def sink(self, sink: Sink, **options: Unpack[SinkOptions]) -> Sunk:
        """End the stream in a sink."""
        name = self.topology.add("sink", sink, self.origins, options, ordered=self.ordered)
        return Sunk(self.topology, name)

    def output(self, schema: Any = None, **options: Unpack[SinkOptions]) -> Sunk:
        """End where ``flow.apply`` will take the resulting DataFrame's rows out.

        ``schema`` is as for ``tr.sinks.table``; left out, it comes from the types that the function in front declares.
        """
        return self.sink(Output(schema), **options)

    def dead_letters(self) -> Stream[DeadLetter]:
        """Read what made the operator in front fail; it needs ``on_error="dead_letter"``."""
        return _dead_letters(self.topology, (origin.operator for origin in self.origins))


class Stream(BaseStream[T]):
    """A stream of values of one kind; ``T`` is what mypy knows of them."""

    def process(
        self,
        fn: Callable[[T], Iterable[Any] | Awaitable[Iterable[Any] | None] | None] | Operator | type[Operator],
        **options: Unpack[CallOptions],
    ) -> Stream[Any]:
        """Run an Operator (class or instance), or a function that returns an iterable of values or None."""
        return self._add("process", fn, options)

    def union(self, *others: Stream[T]) -> Stream[T]:
        """Read this stream and others as one."""
        origins = list(self.origins)
        for other in others:
            if other.topology is not self.topology:
                raise UnionError(
                    "A union takes streams of one topology, "
                    f"found streams of {self.topology.name!r} and of {other.topology.name!r}.",
                    "Draw all of its inputs from the same Topology object.",
                )
            origins.extend(other.origins)
        ports = [(origin.operator, origin.port) for origin in origins]
        for port in ports:
            if ports.count(port) > 1:
                raise UnionError(
                    f"A union takes different streams, found the output of {port[0]!r} twice.",
                    "To double its values use .flat_map(lambda v: (v, v)).",
                )
        return Stream(self.topology, tuple(origins))

    def _grouped(self, grouping: Grouping) -> Stream[T]:
        return Stream(self.topology, tuple(replace(origin, grouping=grouping) for origin in self.origins))

    def shuffle(self) -> Stream[T]:
        """Spread the values evenly over the tasks of the next operator."""
        return self._grouped(groupings.SHUFFLE)

    def broadcast(self) -> Stream[T]:
        """Send every value to all tasks of the next operator."""
        return self._grouped(groupings.ALL)

    def to_global(self) -> Stream[T]:
        """Send every value to task 0 of the next operator."""
        return self._grouped(groupings.GLOBAL)

    def local_or_shuffle(self) -> Stream[T]:
        """Prefer tasks of the next operator in the same worker; spread evenly where there is none."""
        return self._grouped(groupings.LOCAL)

    def direct(self: Stream[Direct[U]]) -> Stream[U]:
        """Let the operator in front name the task: it emits ``tr.direct(task, value)``."""
        return self._grouped(groupings.DIRECT)  # type: ignore[return-value]

    def group_by(self, fn: Callable[[T, int], int | Iterable[int]]) -> Stream[T]:
        """Choose with a function of your own: ``fn(value, n_tasks)`` returns a task's index, or several."""
        return self._grouped(Grouping("custom", fn))


class KeyedStream(BaseStream[T], Generic[K, T]):
    """A stream whose values of equal key meet in one task, so that it can keep state for each key.

    ``count``, ``reduce`` and ``aggregate`` emit an updated ``(key, ...)`` for every value that comes in; with
    ``emit="final"`` they emit each key once, when the stream has ended or the query is stopped. ``map`` and its kin
    work as usual.
    """

    def __init__(
        self, topology: Topology, origins: tuple[Origin, ...], key: Callable[[T], K], *, ordered: bool
    ) -> None:
        super().__init__(topology, origins, ordered=ordered)
        self.key = key

    def count(self, **options: Unpack[UpdateOptions]) -> Stream[tuple[K, int]]:
        """Count the values of each key; emits ``(key, n)``."""
        return self._add("count", None, options, self.key)

    def reduce(self, fn: Callable[[T, T], T], **options: Unpack[UpdateOptions]) -> Stream[tuple[K, T]]:
        """Combine the values of each key, the first one standing as it is; emits ``(key, combined)``."""
        return self._add("reduce", fn, options, self.key)

    @overload
    def aggregate(
        self, init: Callable[[], A], add: Callable[[A, T], A], result: None = None, **options: Unpack[UpdateOptions]
    ) -> Stream[tuple[K, A]]: ...
    @overload
    def aggregate(
        self,
        init: Callable[[], A],
        add: Callable[[A, T], A],
        result: Callable[[A], U],
        **options: Unpack[UpdateOptions],
    ) -> Stream[tuple[K, U]]: ...
    def aggregate(
        self,
        init: Callable[[], A],
        add: Callable[[A, T], A],
        result: Callable[[A], Any] | None = None,
        **options: Unpack[UpdateOptions],
    ) -> Stream[Any]:
        """Fold the values of each key: ``acc = add(acc, value)`` from ``init()`` on; emits ``(key, result(acc))``."""
        return self._add("aggregate", Aggregation(init, add, result), options, self.key)

    @overload
    def process(
        self, fn: Callable[[K, T, S], Iterable[Any] | None], *, state: type[S], **options: Unpack[SinkOptions]
    ) -> Stream[Any]: ...
    @overload
    def process(
        self,
        fn: Callable[[K, T, State[Any]], Iterable[Any] | None] | Operator | type[Operator],
        **options: Unpack[SinkOptions],
    ) -> Stream[Any]: ...
    def process(self, fn: Any, *, state: type[States] | None = None, **options: Unpack[SinkOptions]) -> Stream[Any]:
        """Run a KeyedOperator (class or instance) or a function ``fn(key, value, state)``, each with state per key.

        A function may have states of several kinds: those that the class ``state`` declares, an object of which it is
        called with. A plain Operator works too: it gets whole keys, and keeps what state it likes by itself.
        """
        operator_class = fn if isinstance(fn, type) else type(fn)
        given: dict[str, Any] = {**options} if state is None else {**options, "states": state}
        if issubclass(operator_class, Operator) and not issubclass(operator_class, KeyedOperator):
            return self._add("process", fn, given)
        return self._add("keyed_process", fn, given, self.key)
