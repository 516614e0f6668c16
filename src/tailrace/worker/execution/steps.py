"""Operators as the worker runs them: one step per verb, each taking whole batches.

A step gets the values of all bundles of a batch at once, calls the user's function in as tight a loop as Python has,
and gives its results on with the new size of each bundle. ``sizes`` of None means one value per bundle. Called
through ``chain``; touches nothing but the user's code.
"""

from __future__ import annotations

import copy
from itertools import chain, compress, islice
from typing import TYPE_CHECKING, Any

from mypy_extensions import mypyc_attr

from tailrace.errors import TailraceError
from tailrace.hot import has_kind
from tailrace.program.errors import user_stack
from tailrace.state.errors import StateStorageError
from tailrace.topology.contracts import Transactional, Unreadable, delivery_of
from tailrace.topology.operators import PORT_DEAD, PORT_OUT, PORT_REST, DeadLetter, HasSnapshot
from tailrace.worker.blame import step_error
from tailrace.worker.execution.user_state import UserState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.topology.operators import OperatorSpec, TaskContext

Sizes = list[int] | None
Consumer = "Callable[[list[Any], Sizes], None]"


#: The number of the epoch that a query without a checkpoint consists of.
_ONLY_EPOCH = 1


class _Failed:
    """Stands in a step's results for a value that was skipped."""


FAILED = _Failed()


class At:
    """Tells which operator of a chain runs; written by the thread that runs the chain, read by others."""

    def __init__(self, operator: str) -> None:
        self.operator = operator


@mypyc_attr(allow_interpreted_subclasses=True)
class Step:
    """One operator in one task."""

    def __init__(self, spec: OperatorSpec, ctx: TaskContext) -> None:
        self.spec = spec
        self.ctx = ctx
        #: Values that were left out, and of those the ones that went on as dead letters.
        self.skipped = 0
        self.dead_letters = 0
        #: Whose code runs; shared by all steps of a chain.
        self.at = At(spec.name)
        self.consumers: dict[str, list[Callable[[list[Any], Sizes], None]]] = {}
        #: Tells a number per bundle of the batch at hand; set by the chain.
        self.origins: Callable[[], Sequence[int] | None] = lambda: None
        self._dead: list[tuple[int, DeadLetter]] = []

    @property
    def tick_every_s(self) -> float | None:
        """How often the operator wants to be ticked, if at all."""
        return None

    @property
    def user_state(self) -> UserState | None:
        """What the user's object remembers; None where there is no object, or it remembers nothing."""
        return None

    def open(self) -> None:
        """Get the user's object ready."""

    def tick(self, now_s: float) -> Sequence[Any]:
        """Let the operator act on time; what it gives is emitted."""
        del now_s
        return []

    def close(self) -> Sequence[Any]:
        """End the operator; what it gives is emitted."""
        return []

    def release(self) -> None:
        """Let go of what the user's object holds open, where its task goes on elsewhere or is given up."""
        self.close()

    @property
    def outlives_input(self) -> bool:
        """Whether there is something to do for it when its input has ended: an epoch to be published."""
        return False

    def feed(self, values: list[Any], sizes: Sizes) -> None:
        """Run the operator over a batch and give the results on."""
        self.give(values, self.results(values), sizes)

    def give(self, values: list[Any], results: list[Any], sizes: Sizes) -> None:
        """Turn one result per value into outputs and hand them to whoever reads this operator."""
        raise NotImplementedError

    def call(self, values: Sequence[Any], into: list[Any]) -> None:
        """Append one result per value; when it raises, ``into`` ends where the offending value was."""
        raise NotImplementedError

    def results(self, values: list[Any]) -> list[Any]:
        """One result per value, with failures treated as the operator's error policy says."""
        into: list[Any] = []
        self.at.operator = self.spec.name
        while len(into) < len(values):
            done = len(into)
            try:
                self.call(values if not done else values[done:], into)
            except StateStorageError:
                raise  # no value is to blame, and none may be skipped for it
            except Exception as error:  # noqa: BLE001 - a user's function may raise anything
                self.failed(len(into), values[len(into)], error)
                into.append(FAILED)
        return into

    def failed(self, index: int, value: Any, error: Exception) -> None:
        """Apply the error policy to one value."""
        if self.spec.on_error == "fail":
            raise step_error(self.spec, self.ctx.task, value, error) from error
        self.skipped += 1
        if self.spec.on_error == "dead_letter":
            text = f"{type(error).__name__}: {error}"
            letter = DeadLetter(self.spec.name, self.ctx.task, value, text, user_stack(error))
            self.dead_letters += 1
            self._dead.append((index, letter))

    def out(self, port: str, values: list[Any], sizes: Sizes) -> None:
        """Hand outputs of one port to all that read it."""
        for consumer in self.consumers.get(port, ()):
            consumer(values, sizes)

    def out_dead(self, sizes: Sizes, count: int) -> None:
        """Hand the dead letters of this batch on, each in the bundle of the value it came from."""
        if self._dead:
            flags = [0] * count
            for index, _ in self._dead:
                flags[index] = 1
            letters = [letter for _, letter in self._dead]
            self._dead.clear()
            self.out(PORT_DEAD, letters, regroup(flags, sizes))

    def out_dead_unrooted(self) -> None:
        """Hand the dead letters of what came at the end on, in one bundle: they came of no value of a batch."""
        if self._dead:
            letters = [letter for _, letter in self._dead]
            self._dead.clear()
            self.out(PORT_DEAD, letters, [len(letters)])

    def out_lists(self, lists: list[Any], sizes: Sizes) -> None:
        """Emit a list per value."""
        count = len(lists)
        if self.skipped:
            lists = [() if found is FAILED else found for found in lists]
        self.out(PORT_OUT, list(chain.from_iterable(lists)), regroup(list(map(len, lists)), sizes))
        self.out_dead(sizes, count)


def regroup(per_value: list[int], sizes: Sizes) -> list[int]:
    """Add up outputs per value to outputs per bundle."""
    if sizes is None:
        return per_value
    counts = iter(per_value)
    return [sum(islice(counts, size)) for size in sizes]


class Pass(Step):
    """The head of a source's stage: what was read goes on as it is, but for records that cannot be read."""

    def feed(self, values: list[Any], sizes: Sizes) -> None:
        """Give everything on."""
        if not has_kind(values, Unreadable):
            self.out(PORT_OUT, values, sizes)
            return
        readable: list[Any] = []
        for value in values:
            if isinstance(value, Unreadable):
                self.failed(len(readable), value.raw, value.error)
                readable.append(FAILED)
            else:
                readable.append((value,))
        self.out_lists(readable, sizes)

    def failed(self, index: int, value: Any, error: Exception) -> None:
        """Apply the error policy to one record; an error of the source's own says by itself what is wrong."""
        if self.spec.on_error == "fail" and isinstance(error, TailraceError):
            raise error
        super().failed(index, value, error)


@mypyc_attr(allow_interpreted_subclasses=True)
class Map(Step):
    """One output per input."""

    def call(self, values: Sequence[Any], into: list[Any]) -> None:
        """Call the function on each value."""
        fn = self.spec.fn
        for value in values:
            into.append(fn(value))  # noqa: PERF401 - on an error, ``into`` must end at its value

    def give(self, values: list[Any], results: list[Any], sizes: Sizes) -> None:
        """Give the results on; where some failed, their bundles are shorter."""
        del values
        if self.skipped and any(found is FAILED for found in results):  # a user's value may not like to be compared
            self.out_lists([FAILED if found is FAILED else (found,) for found in results], sizes)
        else:
            self.out(PORT_OUT, results, sizes)


class Filter(Map):
    """Values for which the function is true."""

    def call(self, values: Sequence[Any], into: list[Any]) -> None:
        """Call the function on each value; that its answer is neither true nor false is a failure too."""
        fn = self.spec.fn
        for value in values:
            into.append(bool(fn(value)))  # noqa: PERF401 - on an error, ``into`` must end at its value

    def give(self, values: list[Any], results: list[Any], sizes: Sizes) -> None:
        """Keep what passed."""
        flags = [found is not FAILED and bool(found) for found in results] if self.skipped else list(map(bool, results))
        self.out(PORT_OUT, list(compress(values, flags)), regroup(list(map(int, flags)), sizes))
        self.out_dead(sizes, len(values))


class FlatMap(Step):
    """Any number of outputs per input."""

    def call(self, values: Sequence[Any], into: list[Any]) -> None:
        """Call the function on each value; what it gives is listed here, so that a generator fails on its own value."""
        fn = self.spec.fn
        for value in values:
            into.append(listed(fn(value)))  # noqa: PERF401 - on an error, ``into`` must end at its value

    def give(self, values: list[Any], results: list[Any], sizes: Sizes) -> None:
        """Give all outputs on."""
        del values
        self.out_lists(results, sizes)


class Process(FlatMap):
    """A user's class with open, process, tick and close, or a plain function; each task has a copy of its own."""

    def __init__(self, spec: OperatorSpec, ctx: TaskContext) -> None:
        super().__init__(spec, ctx)
        self.user = spec.fn() if isinstance(spec.fn, type) else copy.deepcopy(spec.fn)
        self._object = hasattr(self.user, "process")
        self.process = self.user.process if self._object else self.user

    @property
    def tick_every_s(self) -> float | None:
        """What the user's class says."""
        return getattr(self.user, "tick_every_s", None)

    @property
    def user_state(self) -> UserState | None:
        """What the user's object remembers, if it is one."""
        return UserState(self.user) if self._object else None

    def open(self) -> None:
        """Open the user's operator, if it is an object."""
        if self._object:
            self.user.open(self.ctx)

    def tick(self, now_s: float) -> Sequence[Any]:
        """Tick the user's operator, if it is an object."""
        return listed(self.user.tick(now_s)) if self._object else []

    def close(self) -> Sequence[Any]:
        """Close the user's operator, if it is an object."""
        return listed(self.user.close()) if self._object else []

    def call(self, values: Sequence[Any], into: list[Any]) -> None:
        """Call ``process`` on each value."""
        process = self.process
        for value in values:
            into.append(listed(process(value)))  # noqa: PERF401 - on an error, ``into`` must end at its value


class Branch(Step):
    """Each value to the first port whose predicate is true, else to the rest."""

    def call(self, values: Sequence[Any], into: list[Any]) -> None:
        """Find each value's port."""
        predicates = [(fn, str(i)) for i, fn in enumerate(self.spec.fn)]
        for value in values:
            into.append(next((port for fn, port in predicates if fn(value)), PORT_REST))  # noqa: PERF401

    def give(self, values: list[Any], results: list[Any], sizes: Sizes) -> None:
        """Give each port its values."""
        for port in self.consumers:
            if port != PORT_DEAD:
                flags = [int(found == port) for found in results]
                self.out(port, list(compress(values, flags)), regroup(flags, sizes))
        self.out_dead(sizes, len(values))


class SinkStep(Step):
    """A sink; batches are written whole unless single failures are to be told apart."""

    def __init__(self, spec: OperatorSpec, ctx: TaskContext) -> None:
        super().__init__(spec, ctx)
        self.sink = copy.deepcopy(spec.fn)
        self.durable = bool(ctx.checkpoint)
        kind = delivery_of(self.sink, durable=self.durable)
        #: Whether it is told of epochs; collect is not, whose values are part of the cut.
        self.transactional = kind == "transactional" and isinstance(self.sink, Transactional)
        self._numbers: list[int] | None = None

    @property
    def user_state(self) -> UserState | None:
        """What the sink remembers, if it speaks of any."""
        return UserState(self.sink) if isinstance(self.sink, HasSnapshot) else None

    def open(self) -> None:
        """Open the sink."""
        self.sink.open(self.ctx)

    def close(self) -> Sequence[Any]:
        """Close the sink; without epochs, all it took in is published now."""
        if self.transactional and not self.durable:
            make_durable = self.sink.prepare(_ONLY_EPOCH)
            if make_durable is not None:
                make_durable()
            self.sink.commit(_ONLY_EPOCH)
        self.sink.close()
        return []

    def release(self) -> None:
        """Close the sink and publish nothing."""
        self.sink.close()

    @property
    def outlives_input(self) -> bool:
        """Whether it publishes with epochs: the last one becomes durable after all tasks have ended."""
        return self.transactional and self.durable

    def feed(self, values: list[Any], sizes: Sizes) -> None:
        """Write the batch."""
        if not values:
            return
        self._numbers = self._per_value(sizes) if self.sink.wants_origins else None
        self.at.operator = self.spec.name
        if self.spec.on_error == "fail":
            try:
                self._write(values, self._numbers)
            except Exception as error:  # noqa: BLE001 - a user's sink may raise anything
                self.failed(0, values[0] if len(values) == 1 else values, error)
        elif not self._written_whole(values):
            self.results(values)
            self.out_dead(sizes, len(values))

    def _write(self, values: list[Any], numbers: list[int] | None) -> None:
        if self.sink.wants_origins:
            self.sink.write_origins(values, numbers)
        else:
            self.sink.write(values)

    def _per_value(self, sizes: Sizes) -> list[int] | None:
        """What each value came of."""
        origins = self.origins()
        if origins is None or sizes is None:
            return None if origins is None else list(origins)
        return [origin for origin, size in zip(origins, sizes, strict=True) for _ in range(size)]

    def _written_whole(self, values: list[Any]) -> bool:
        """Where a failed write leaves nothing behind, only batches with a bad value are written one by one."""
        if not self.sink.atomic:
            return False
        try:
            self._write(values, self._numbers)
        except Exception:  # noqa: BLE001 - found again, with its value, one by one
            return False
        return True

    def call(self, values: Sequence[Any], into: list[Any]) -> None:
        """Write value by value."""
        for value in values:
            number = None if self._numbers is None else [self._numbers[len(into)]]
            self._write([value], number)
            into.append(None)


def listed(found: Any) -> Sequence[Any]:
    """What a user's function gave, as a list of our own: the function may use its list again. None is nothing."""
    return () if found is None else list(found)
