"""The keyed operators as the worker runs them: like ``steps``, with a dict of states by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.hot import count_keys
from tailrace.state.keyed import Cell, KeyedState

from .steps import Map, Process, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.topology.operators import OperatorSpec, TaskContext


class KeyedProcess(Process):
    """A user's function or class with the state of the value's key."""

    def __init__(self, spec: OperatorSpec, ctx: TaskContext) -> None:
        super().__init__(spec, ctx)
        self.states: KeyedState = {}

    def call(self, values: Sequence[Any], into: list[Any]) -> None:
        """Call it with each value, its key and the key's state."""
        key_of, cell, process = self.spec.key, Cell(self.states), self.process
        for value in values:
            key = key_of(value)  # type: ignore[misc]
            into.append(listed(process(key, value, cell.at(key))))


class Count(Map):
    """How often each key was seen; the values that reach it are the keys themselves."""

    def __init__(self, spec: OperatorSpec, ctx: TaskContext) -> None:
        super().__init__(spec, ctx)
        self.states: KeyedState = {}

    def call(self, values: Sequence[Any], into: list[Any]) -> None:
        """Count each key up."""
        count_keys(self.states, values if isinstance(values, list) else list(values), into)


class Reduce(Map):
    """A running combination per key, begun by the key's first value."""

    def __init__(self, spec: OperatorSpec, ctx: TaskContext) -> None:
        super().__init__(spec, ctx)
        self.states: KeyedState = {}

    def call(self, values: Sequence[Any], into: list[Any]) -> None:
        """Combine each value with what its key has."""
        states, key_of, fn = self.states, self.spec.key, self.spec.fn
        for value in values:
            key = key_of(value)  # type: ignore[misc]
            found = states[key] = fn(states[key], value) if key in states else value
            into.append((key, found))


class Aggregate(Map):
    """A running accumulator per key, with a result drawn from it."""

    def __init__(self, spec: OperatorSpec, ctx: TaskContext) -> None:
        super().__init__(spec, ctx)
        self.states: KeyedState = {}

    def call(self, values: Sequence[Any], into: list[Any]) -> None:
        """Add each value to its key's accumulator."""
        states, key_of = self.states, self.spec.key
        init, add, result = self.spec.fn
        for value in values:
            key = key_of(value)  # type: ignore[misc]
            found = states[key] = add(states[key] if key in states else init(), value)
            into.append((key, found if result is None else result(found)))
