"""The keyed operators as the worker runs them: like ``steps``, with a backend that has the state of each key.

``chain`` makes them with a backend of their own; the built-in ones update its table in place. Whoever takes, moves or
cuts state finds it as a ``StatefulStep``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mypy_extensions import trait

from tailrace.hot import count_keys
from tailrace.state.declared import States
from tailrace.state.named import NOTHING, NamedStates, declarations
from tailrace.topology.operators import PORT_OUT
from tailrace.worker.execution.backends import CODEC
from tailrace.worker.execution.steps import Map, Process, listed, regroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.state.backend import StateBackend
    from tailrace.topology.operators import OperatorSpec, TaskContext
    from tailrace.worker.execution.steps import Sizes

#: How often a task without input looks for states that have expired.
_SWEEP_EVERY_S = 1.0


@trait
class StatefulStep:
    """A step that keeps state by key."""

    state: StateBackend

    def shown(self, key: Any) -> Any:
        """The state of a key, for whoever asks from outside; None if it has none."""
        return self.state.get(key)


class KeyedProcess(Process, StatefulStep):
    """A user's function or class with the state of the value's key, and with the states that it declares."""

    def __init__(self, spec: OperatorSpec, ctx: TaskContext, state: StateBackend) -> None:
        super().__init__(spec, ctx)
        self.state = state
        #: What a function that declares states is called with in place of the state without a name.
        self._given = None if spec.states is None else spec.states()
        self._named = named_states(self.user if self._given is None else self._given, ctx)

    @property
    def tick_every_s(self) -> float | None:
        """What the user's class says; else now and then, where states expire: they do so without being asked for."""
        given: float | None = getattr(self.user, "tick_every_s", None)
        return _SWEEP_EVERY_S if given is None and self._named is not None and self._named.expires else given

    def tick(self, now_s: float) -> Sequence[Any]:
        """Look for what has expired, and tick the user's operator if it wants that."""
        if self._named is not None:
            self._named.begin(self.state)
        return [] if getattr(self.user, "tick_every_s", None) is None else super().tick(now_s)

    def call(self, values: Sequence[Any], into: list[Any]) -> None:
        """Call it with each value, its key and the key's state."""
        if self._named is not None:
            self._call_named(self._named, values, into)
            return
        key_of, cell, process = self.spec.key, self.state.cell(), self.process
        for value in values:
            key = key_of(value)  # type: ignore[misc]
            into.append(listed(process(key, value, cell.at(key))))

    def shown(self, key: Any) -> Any:
        """The state of a key; where states are declared, a dict of them by name."""
        plain = self.state.get(key)
        if self._named is None:
            return plain
        self._named.begin(self.state)
        self._named.key = key
        try:
            found = self._named.shown()
        finally:
            self._named.key = NOTHING
        return plain if not found else found if plain is None else {"": plain, **found}

    def _call_named(self, named: NamedStates, values: Sequence[Any], into: list[Any]) -> None:
        named.begin(self.state)  # may be another one since a move or a recovery
        key_of, cell, process, given = self.spec.key, named.cell, self.process, self._given
        try:
            for value in values:
                key = named.key = key_of(value)  # type: ignore[misc]
                into.append(listed(process(key, value, cell.at(key) if given is None else given)))
        finally:
            named.key = NOTHING


def named_states(user: Any, ctx: TaskContext) -> NamedStates | None:
    """Let an object have the states that its class declares, if it does."""
    is_given = isinstance(user, States)
    if not is_given and not declarations(type(user)):
        return None
    found = NamedStates(user, ctx.operator, CODEC, ctx.clock.wall_ms)
    if is_given:
        vars(user)["_at"] = found
    return found


class Updates(Map, StatefulStep):
    """A running value per key: emitted with every value that comes in or, with ``emit="final"``, when the task ends.

    States are what moves with key groups, so whoever has a key at the end is the one that emits it.
    """

    def __init__(self, spec: OperatorSpec, ctx: TaskContext, state: StateBackend) -> None:
        super().__init__(spec, ctx)
        self.state = state
        self._final = spec.emit == "final"

    def give(self, values: list[Any], results: list[Any], sizes: Sizes) -> None:
        """Give the updates on, or hold them back and say that nothing came of these values."""
        if not self._final:
            super().give(values, results, sizes)
            return
        self.out(PORT_OUT, [], regroup([0] * len(values), sizes))
        self.out_dead(sizes, len(values))

    def result(self, held: Any) -> Any:
        """What is emitted of a key's state."""
        return held

    def close(self) -> Sequence[Any]:
        """Emit every key once, if that was held back."""
        if not self._final:
            return []
        found: list[Any] = []
        for number, (key, held) in enumerate(self.state.items()):
            try:
                found.append((key, self.result(held)))
            except Exception as error:  # noqa: BLE001, PERF203 - a user's function may raise anything
                self.failed(number, (key, held), error)
        self.out_dead_unrooted()
        return found


class Count(Updates):
    """How often each key was seen; the values that reach it are the keys themselves."""

    def call(self, values: Sequence[Any], into: list[Any]) -> None:
        """Count each key up."""
        keys = values if isinstance(values, list) else list(values)
        self.state.touch(keys)
        count_keys(self.state.table, keys, into)


class Reduce(Updates):
    """A running combination per key, begun by the key's first value."""

    def call(self, values: Sequence[Any], into: list[Any]) -> None:
        """Combine each value with what its key has."""
        states, key_of, fn = self.state.table, self.state.touching(self.spec.key), self.spec.fn  # type: ignore[arg-type]
        for value in values:
            key = key_of(value)
            found = states[key] = fn(states[key], value) if key in states else value
            into.append((key, found))


class Aggregate(Updates):
    """A running accumulator per key, with a result drawn from it."""

    def call(self, values: Sequence[Any], into: list[Any]) -> None:
        """Add each value to its key's accumulator; a result that is held back is drawn at the end."""
        states, key_of = self.state.table, self.state.touching(self.spec.key)  # type: ignore[arg-type]
        init, add, result = self.spec.fn
        if self._final:
            result = None
        for value in values:
            key = key_of(value)
            found = states[key] = add(states[key] if key in states else init(), value)
            into.append((key, found if result is None else result(found)))

    def result(self, held: Any) -> Any:
        """What the user's function makes of the accumulator."""
        result = self.spec.fn.result
        return held if result is None else result(held)
