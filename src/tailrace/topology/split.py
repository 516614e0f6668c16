"""Operators that need all tuples in one place, split into a parallel part and a merge (Hone, section 7).

Public as ``tr.split``. ``top_k``, ``total`` and ``in_order`` are for streams without keys; ``with_partial_keys``
rewrites a topology's counts and reduces for rules under which a key's state lies in two tasks. A part keeps its own
share and tells the merge about it every ``every_s`` and at the end; it tells what it has in all, not what was added, so
that a message lost or repeated does no harm. The price: results come every ``every_s`` and not with every tuple.
"""

from __future__ import annotations

import copy
import functools
import heapq
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .errors import OptionError
from .graph import Topology
from .groupings import Grouping
from .operators import PORT_OUT, Aggregation, EdgeSpec, Operator, OperatorSpec
from .ranking import LargestKeys, keys_and_ranks
from .streams import KeyedStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .operators import Outputs, TaskContext
    from .streams import BaseStream, Stream

__all__ = ["in_order", "parallel_fold", "top_k", "total", "with_partial_keys"]

T = TypeVar("T")

TELL_EVERY_S = 0.1


class PartialFold(Operator):
    """The parallel part: folds what its task gets; ``every_s`` of None tells only at the end."""

    def __init__(self, init: Callable[[], Any], add: Callable[[Any, Any], Any], every_s: float | None) -> None:
        self.tick_every_s = every_s  # type: ignore[misc]
        self._add = add
        self._held = init()
        self._changed = False
        self._task = 0

    def open(self, ctx: TaskContext) -> None:
        """Learn which part this is."""
        self._task = ctx.task

    def process(self, *args: Any, **kwargs: Any) -> Outputs:
        """Take a value in."""
        del kwargs
        self._held = self._add(self._held, args[0])
        self._changed = True
        return None

    def tick(self, now_s: float) -> Outputs:
        """Tell what is held, if it has changed."""
        del now_s
        if not self._changed:
            return None
        self._changed = False
        return [(self._task, copy.copy(self._held))]

    def close(self) -> Outputs:
        """Tell what is held at the end."""
        return self.tick(0.0)


class MergeFolds(Operator):
    """The merge, one task: knows the latest of every part and gives the whole; ``at_end`` gives it once."""

    def __init__(self, merge: Callable[[Iterable[Any]], Any], *, at_end: bool = False) -> None:
        self._merge = merge
        self._at_end = at_end
        self._parts: dict[int, Any] = {}

    def process(self, *args: Any, **kwargs: Any) -> Outputs:
        """Take the word of a part."""
        del kwargs
        task, held = args[0]
        self._parts[task] = held
        return None if self._at_end else [self._merge(self._parts.values())]

    def close(self) -> Outputs:
        """Give the whole, if it was held back."""
        return [self._merge(self._parts.values())] if self._at_end else None


def parallel_fold(
    stream: Stream[Any],
    init: Callable[[], Any],
    add: Callable[[Any, Any], Any],
    merge: Callable[[Iterable[Any]], Any],
    *,
    tasks: int,
    name: str,
    every_s: float | None = TELL_EVERY_S,
) -> Stream[Any]:
    """Fold in ``tasks`` parts and merge them in one: what the helpers below are made of."""
    parts = stream.shuffle().process(PartialFold(init, add, every_s), tasks=tasks, name=f"{name}_parts")
    return parts.to_global().process(MergeFolds(merge, at_end=every_s is None), name=name)


def top_k(
    stream: BaseStream[T],
    k: int,
    *,
    tasks: int,
    by: Callable[[T], Any] | None = None,
    key: Callable[[T], Any] | None = None,
    name: str = "top_k",
) -> Stream[list[T]]:
    """The k largest values so far, largest first.

    With ``key`` a later value of a key takes the place of the one before, so that a key is in the list once. What
    ``count``, ``reduce`` and ``aggregate`` emit, and a stream that went through ``key_by``, have their key without it;
    such pairs are ranked by their second part unless ``by`` says otherwise.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise OptionError(f"top_k needs a k of at least 1, found {k!r}.", "Say how many values to keep.")
    key, by = keys_and_ranks(stream, key, by)

    def add(held: list[Any], value: Any) -> list[Any]:
        return heapq.nlargest(k, [*held, value], key=by)

    def merge(parts: Iterable[Any]) -> list[Any]:
        return heapq.nlargest(k, (value for part in parts for value in part), key=by)

    if key is None:
        return parallel_fold(cast("Stream[T]", stream), list, add, merge, tasks=tasks, name=name)
    keyed = stream if isinstance(stream, KeyedStream) and stream.key is key else stream.key_by(key)
    parts = keyed.process(LargestKeys(k, key, by, TELL_EVERY_S), tasks=tasks, name=f"{name}_parts")
    return parts.to_global().process(MergeFolds(merge), name=name)


def total(stream: Stream[Any], *, tasks: int, name: str = "total") -> Stream[Any]:
    """The sum so far."""
    return parallel_fold(stream, int, lambda held, value: held + value, sum, tasks=tasks, name=name)


def in_order(
    stream: Stream[T], *, tasks: int, by: Callable[[T], Any] | None = None, name: str = "in_order"
) -> Stream[list[T]]:
    """All values of a stream that ends, sorted: parts sort their shares, the merge merges them."""

    def add(held: list[Any], value: Any) -> list[Any]:
        held.append(value)
        return held

    def merge(parts: Iterable[Any]) -> list[Any]:
        return list(heapq.merge(*(sorted(part, key=by) for part in parts), key=by))

    return parallel_fold(stream, list, add, merge, tasks=tasks, name=name, every_s=None)


# -- keyed ------------------------------------------------------------------------------------------------------------


class PartialKeyFold(Operator):
    """A keyed fold of which a key may have two: tells ``(key, task, held)`` for every key that has changed.

    ``every_s`` of None tells only at the end.
    """

    #: Edges into this may use two choices per key.
    two_choices = True

    def __init__(self, key: Callable[[Any], Any], add: Callable[[Any, Any], Any], every_s: float | None) -> None:
        self.tick_every_s = every_s  # type: ignore[misc]
        self._key = key
        self._add = add
        self._held: dict[Any, Any] = {}
        self._changed: dict[Any, None] = {}
        self._task = 0

    def open(self, ctx: TaskContext) -> None:
        """Learn which part this is."""
        self._task = ctx.task

    def process(self, *args: Any, **kwargs: Any) -> Outputs:
        """Take a value in under its key."""
        del kwargs
        key = self._key(args[0])
        self._held[key] = self._add(self._held.get(key), args[0])
        self._changed[key] = None
        return None

    def tick(self, now_s: float) -> Outputs:
        """Tell what has changed."""
        del now_s
        told = [(key, self._task, self._held[key]) for key in self._changed]
        self._changed.clear()
        return told

    def close(self) -> Outputs:
        """Tell the rest."""
        return self.tick(0.0)


class Whole:
    """What the tasks of a key hold, put together; a class, so that it can be shipped."""

    def __init__(self, merge: Callable[[Any, Any], Any]) -> None:
        self._merge = merge

    def __call__(self, parts: dict[int, Any]) -> Any:
        return functools.reduce(self._merge, parts.values())


def _heard(parts: dict[int, Any], told: tuple[Any, int, Any]) -> dict[int, Any]:
    _, task, held = told
    return {**parts, task: held}


def _count(held: int | None, _: Any) -> int:
    return (held or 0) + 1


def _add_counts(one: int, other: int) -> int:
    return one + other


def _first(told: tuple[Any, ...]) -> Any:
    return told[0]


class _Reduce:
    """A reduce's function where there may be nothing yet; a class, so that it can be shipped."""

    def __init__(self, fn: Callable[[Any, Any], Any]) -> None:
        self._fn = fn

    def __call__(self, held: Any, value: Any) -> Any:
        return value if held is None else self._fn(held, value)


def with_partial_keys(topology: Topology) -> Topology:
    """Rewrite counts and reduces of several tasks into parts and a merge; the rest stays as it was drawn.

    A reduce's function must not mind the order of values, as with any combiner. Ordered streams are left alone.
    """
    found = Topology(topology.name)
    renamed: dict[str, str] = {}
    for name, spec in topology.operators.items():
        if not _splits(spec):
            found.operators[name] = spec
            continue
        parts, merge = _split(spec)
        renamed[name] = parts.name
        found.operators[parts.name], found.operators[name] = parts, merge
        found.edges.append(EdgeSpec(parts.name, PORT_OUT, name, Grouping("fields", _first)))
    found.edges += [replace(edge, dst=renamed.get(edge.dst, edge.dst)) for edge in topology.edges]
    return found


def _splits(spec: OperatorSpec) -> bool:
    alone = spec.tasks == 1
    return spec.verb in {"count", "reduce"} and not alone and not spec.ordered and spec.on_error == "fail"


def _split(spec: OperatorSpec) -> tuple[OperatorSpec, OperatorSpec]:
    key = spec.key or _first
    add, merge = (_count, _add_counts) if spec.verb == "count" else (_Reduce(spec.fn), spec.fn)
    fold = PartialKeyFold(key, add, TELL_EVERY_S if spec.emit == "update" else None)
    parts = replace(spec, name=f"{spec.name}_parts", verb="process", fn=fold, key=None, emit="update")
    return parts, replace(spec, verb="aggregate", fn=Aggregation(dict, _heard, Whole(merge)), key=_first)
