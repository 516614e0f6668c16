"""The largest of a stream of updates: each key counts once, with the last that was said of it.

``split.top_k`` makes its parallel part of this where its input has keys. A part gets whole keys and remembers the last
update of each of its own, because a key that falls makes room for one that was not among the largest before.
"""

from __future__ import annotations

import heapq
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from .errors import OptionError
from .operators import PORT_OUT, UPDATE_VERBS, Operator
from .streams import KeyedStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from .operators import Outputs, TaskContext
    from .streams import BaseStream


def keys_and_ranks(
    stream: BaseStream[Any], key: Callable[[Any], Any] | None, by: Callable[[Any], Any] | None
) -> tuple[Callable[[Any], Any] | None, Callable[[Any], Any] | None]:
    """What tells the key of a value, and what values are ranked by: as given, else by where the stream comes from.

    Pairs of ``count``, ``reduce`` and ``aggregate`` are updates of their first part, ranked by the second.
    """
    operators = stream.topology.operators
    updates = [origin.port == PORT_OUT and operators[origin.operator].verb in UPDATE_VERBS for origin in stream.origins]
    if key is None and isinstance(stream, KeyedStream):
        key = stream.key
    if key is None and any(updates) and len(updates) > 1:
        names = ", ".join(repr(origin.operator) for origin in stream.origins)
        raise OptionError(
            f"top_k reads updates of keys, and those of {names} are united: equal keys may mean one thing or several.",
            "Say which with key=: for example key=lambda pair: pair[0].",
        )
    if updates and all(updates):
        return key or itemgetter(0), by or itemgetter(1)
    return key, by


class LargestKeys(Operator):
    """A part of ``top_k`` by key: tells the k largest among the last updates of its keys, when they have changed."""

    def __init__(
        self, k: int, key: Callable[[Any], Any], by: Callable[[Any], Any] | None, every_s: float | None
    ) -> None:
        self.tick_every_s = every_s  # type: ignore[misc]
        self._k = k
        self._key = key
        self._by = by
        self._last: dict[Any, Any] = {}
        #: The largest keys when it was last told, with what each was ranked by.
        self._told: dict[Any, Any] = {}
        self._changed: dict[Any, None] = {}
        self._task = 0
        #: How often keys were dealt anew to parts and to how many then, told with every word since; and whether this
        #: part has yet to say its first.
        self._dealt: tuple[int, ...] = ()
        self._unheard = False

    def open(self, ctx: TaskContext) -> None:
        """Learn which part this is."""
        self._task = ctx.task

    def process(self, *args: Any, **kwargs: Any) -> Outputs:
        """Take an update in; the one before is forgotten."""
        del kwargs
        key = self._key(args[0])
        self._last[key] = args[0]
        self._changed[key] = None
        return None

    def tick(self, now_s: float) -> Outputs:
        """Tell the largest, if anything has changed."""
        del now_s
        if not self._changed and not self._unheard:
            return None
        self._unheard = False
        keys = self._candidates()
        largest = heapq.nlargest(self._k, keys, key=self._rank)
        self._told = {key: self._rank(key) for key in largest}
        self._changed.clear()
        return [(self._task, [self._last[key] for key in largest], *self._dealt)]

    def close(self) -> Outputs:
        """Tell the rest."""
        return self.tick(0.0)

    def _candidates(self) -> list[Any]:
        """Keys that can be among the largest: those that were and those that changed, or all once one of them fell."""
        if len(self._told) < self._k or any(self._rank(key) < rank for key, rank in self._told.items()):
            return list(self._last)
        return list(dict.fromkeys([*self._told, *self._changed]))

    def _rank(self, key: Any) -> Any:
        return self._last[key] if self._by is None else self._by(self._last[key])

    def snapshot(self) -> Any:
        """Tell what is known of the keys; the functions are part of the topology."""
        return self._last, self._told, self._changed, self._dealt, self._unheard

    def restore(self, state: Any) -> None:
        """Go on from there; the release before this one told three of them."""
        self._last, self._told, self._changed, *dealt = state
        if dealt:
            self._dealt, self._unheard = dealt

    @staticmethod
    def rescale(states: list[Any], tasks: int, task_of: Callable[[Any], int]) -> list[Any]:
        """Deal the keys to other parts; all of those tell theirs, which the merge takes together in place of before."""
        last: list[dict[Any, Any]] = [{} for _ in range(tasks)]
        for state in states:
            for key, update in state[0].items():
                last[task_of(key)][key] = update
        often = max([state[3][0] for state in states if len(state) > 3 and state[3]], default=0)  # noqa: PLR2004
        return [(each, {}, dict.fromkeys(each), (often + 1, tasks), True) for each in last]
