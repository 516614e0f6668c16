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
        self._share = _Share(0)

    def open(self, ctx: TaskContext) -> None:
        """Learn which part this is."""
        self._share = _Share(ctx.task, ctx.tasks - 1)

    def process(self, *args: Any, **kwargs: Any) -> Outputs:
        """Take a value in."""
        del kwargs
        self._held = self._add(self._held, args[0])
        self._changed = True
        return None

    def tick(self, now_s: float) -> Outputs:
        """Tell what is held, if it has changed."""
        del now_s
        told = self._share.inherited()
        if self._changed:
            told.append((self._share.number, copy.copy(self._held)))
        self._changed = False
        return told

    def close(self) -> Outputs:
        """Tell what is held at the end."""
        return self.tick(0.0)

    def snapshot(self) -> Any:
        """Tell what is held; the functions are part of the topology."""
        return {"held": self._held, "changed": self._changed, "share": self._share.told}

    def restore(self, state: Any) -> None:
        """Go on from there; the release before this one told all attributes."""
        self._share = _Share(*state["share"]) if "share" in state else self._share
        self._held = state.get("held", state.get("_held", self._held))
        self._changed = state.get("changed", state.get("_changed", False))

    @staticmethod
    def rescale(states: list[Any], tasks: int, task_of: Any) -> list[Any]:
        """Let as many parts as there will be go on; what others had, and had yet to tell, is told by those."""
        del task_of  # any part may get any value
        return _rescaled(states, tasks, lambda state, number: [(number, _held_of(state))] if _untold(state) else [])


class MergeFolds(Operator):
    """The merge, one task: knows the latest of every part and gives the whole; ``at_end`` gives it once."""

    def __init__(self, merge: Callable[[Iterable[Any]], Any], *, at_end: bool = False) -> None:
        self._merge = merge
        self._at_end = at_end
        self._parts: dict[int, Any] = {}
        #: How often keys were dealt anew to parts, and the words since then while some are missing.
        self._dealt = 0
        self._coming: dict[int, Any] = {}

    def process(self, *args: Any, **kwargs: Any) -> Outputs:
        """Take the word of a part; where keys were dealt anew, all parts are heard before any counts."""
        del kwargs
        task, held, *anew = args[0]
        if anew and anew[0] > self._dealt:
            self._coming[task] = held
            if len(self._coming) < anew[1]:
                return None
            self._dealt, self._parts, self._coming = anew[0], self._coming, {}
        else:
            self._parts[task] = held
        return None if self._at_end else [self._merge(self._parts.values())]

    def close(self) -> Outputs:
        """Give the whole, if it was held back."""
        return [self._merge(self._parts.values())] if self._at_end else None


class _Share:
    """Under which number a part tells what it holds, and what it has yet to tell of parts that are no more.

    A merge knows parts by number, so none is ever given twice. What a part told before it was given up stands.
    """

    def __init__(self, number: int, highest: int = 0, untold: list[Any] | None = None) -> None:
        self.number = number
        #: The highest number that was ever given.
        self.highest = highest
        self._untold = untold or []

    def inherited(self) -> list[Any]:
        """What is to be told of others, once."""
        told, self._untold = self._untold, []
        return told

    @property
    def told(self) -> tuple[int, int, list[Any]]:
        """What a snapshot tells of it."""
        return self.number, self.highest, self._untold


def _rescaled(states: list[Any], tasks: int, untold_of: Callable[[Any, int], list[Any]]) -> list[Any]:
    """Deal parts that were told apart by number to other tasks."""
    shares = [_Share(*state.get("share", (state.get("_task"), len(states) - 1))) for state in states]
    highest = max(tasks - 1, *(share.highest for share in shares))
    untold = [share.inherited() for share in shares]
    for at in range(tasks, len(states)):
        untold[at % tasks] += [*untold[at], *untold_of(states[at], shares[at].number)]
    kept = min(tasks, len(states))
    found: list[Any] = [{**states[at], "share": (shares[at].number, highest, untold[at])} for at in range(kept)]
    return found + [{"share": (highest + at, highest + at, [])} for at in range(1, tasks - kept + 1)]


def _untold(state: Any) -> Any:
    return state.get("changed", state.get("_changed"))


def _held_of(state: Any) -> Any:
    return state.get("held", state.get("_held"))


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
        self._share = _Share(0)

    def open(self, ctx: TaskContext) -> None:
        """Learn which part this is."""
        self._share = _Share(ctx.task, ctx.tasks - 1)

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
        told = self._share.inherited()
        told += [(key, self._share.number, self._held[key]) for key in self._changed]
        self._changed.clear()
        return told

    def close(self) -> Outputs:
        """Tell the rest."""
        return self.tick(0.0)

    def snapshot(self) -> Any:
        """Tell what is held; the functions are part of the topology."""
        return {"held": self._held, "changed": self._changed, "share": self._share.told}

    def restore(self, state: Any) -> None:
        """Go on from there; the release before this one told all attributes."""
        self._share = _Share(*state["share"]) if "share" in state else self._share
        self._held = state.get("held", state.get("_held", self._held))
        self._changed = state.get("changed", state.get("_changed", self._changed))

    @staticmethod
    def rescale(states: list[Any], tasks: int, task_of: Any) -> list[Any]:
        """Let as many parts as there will be go on; what others had, and had yet to tell, is told by those."""
        del task_of  # a key has two tasks, and its merge adds up whoever had it
        return _rescaled(
            states,
            tasks,
            lambda state, number: [(key, number, _held_of(state)[key]) for key in _untold(state)],
        )


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
