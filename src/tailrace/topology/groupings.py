"""Groupings: which tasks of the next operator get a tuple. Pure data that an edge carries; ``routing`` acts on it.

Users seldom name this module: they choose with the methods of a stream (``shuffle``, ``broadcast``, ``key_by``, ...).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, get_args

T = TypeVar("T")

GroupingKind = Literal["auto", "shuffle", "fields", "all", "global", "direct", "local", "custom"]
GROUPING_KINDS: frozenset[str] = frozenset(get_args(GroupingKind))

KeyFunction = Callable[[Any], Any]
CustomGrouping = Callable[[Any, int], "int | Iterable[int]"]


@dataclass(frozen=True)
class Grouping:
    """How the tuples of one edge are shared out over the tasks of the operator at its end.

    ========  =====================================================================================
    auto      handed over in the same task where both ends have as many tasks, else like shuffle
    shuffle   each tuple to one task, evenly
    fields    tuples of equal ``fn(value)`` to the same task
    all       each tuple to every task
    global    every tuple to task 0
    direct    the sender names the task: ``tr.direct(task, value)``
    local     a task in the same worker where there is one, else like shuffle
    custom    ``fn(value, n_tasks)`` returns a task's index, or several
    ========  =====================================================================================
    """

    kind: GroupingKind = "auto"
    fn: Callable[..., Any] | None = None

    def __str__(self) -> str:
        name = getattr(self.fn, "__name__", "")
        return f"{self.kind} by {name}" if name.isidentifier() else self.kind


AUTO = Grouping("auto")
SHUFFLE = Grouping("shuffle")
ALL = Grouping("all")
GLOBAL = Grouping("global")
DIRECT = Grouping("direct")
LOCAL = Grouping("local")


@dataclass(slots=True)
class Direct(Generic[T]):
    """A value together with the index of the task that is to get it; for streams under the direct grouping.

    No tuple on purpose: returned bare where a list of them is due, it is refused instead of being taken apart.
    """

    task: int
    value: T


def direct(task: int, value: T) -> Direct[T]:
    """Address a value to one task of the operator behind a ``.direct()`` stream."""
    return Direct(task, value)
