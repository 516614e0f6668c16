"""Detour: first incarnations go as the edge's own rule says, a replay to the task with the fewest pending tuples.

A root is overdue because some task on its way holds it. Where that task is at the other end of this edge, the root's
own tuple is among those pending there, and so are all that came after it; a task that has none pending is another way.
Among those with as few, the one that last finished something is taken: at low rates a sender may have nothing pending
at a task that stalls, but a stalled task has not finished anything lately. So no sender has to remember where anything
went. Pending is what was sent less what the receiver's credits told it has finished.

Used around shuffle and ``shortest_delay`` on tracked, unguarded edges while replays are adaptive. When it loses: with
credits that come late a stalled task looks alive; and in front of state or a sink there is no other way, since
incarnations have to meet (``by_root``).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from tailrace.batch import REPLAY_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.batch import Batch

    from .base import Router


class Detour:
    """Sends replays around whoever is slow; everything else by the inner rule."""

    several = False
    unwraps = False

    def __init__(self, inner: Router, tasks: int, pending: Sequence[int] | None = None) -> None:
        self.inner = inner
        #: May be begun with what is under way already, where replays are switched on at run time.
        self.pending = list(pending or [0] * tasks)
        #: The inner rule's own count, where it goes by one: it learns from here what replays have added.
        self._inner_pending: list[int] | None = getattr(inner, "pending", None)
        #: The later a task was heard of, the higher its number.
        self._heard = [0] * tasks
        self._clock = 0

    def reweigh(self, weights: Sequence[float]) -> None:
        """Hand new weights to the inner rule, where it has any."""
        reweigh = getattr(self.inner, "reweigh", None)
        if reweigh is not None:
            reweigh(weights)

    def finished(self, dest: int, tuples: int) -> None:
        """Note that a task has finished tuples of this sender."""
        self.pending[dest] -= tuples
        self._clock += 1
        self._heard[dest] = self._clock

    def choose(self, values: list[Any], origin: Batch) -> list[int]:
        """Ask the inner rule, then give replayed bundles the least pending task."""
        pending = self.pending
        replayed = [inc & REPLAY_MAX for inc in origin.incs]
        if replayed and all(replayed) and len(values) == len(replayed):
            dests = [0] * len(values)  # one piece each: the inner rule's turn is left to the others
        else:
            if self._inner_pending is not None:
                self._inner_pending[:] = pending
            dests = self.inner.choose(values, origin)
        if any(replayed):
            dests = self._around(dests, origin)
        for dest in dests:
            pending[dest] += 1
        return dests

    def _around(self, dests: list[int], origin: Batch) -> list[int]:
        """Move the groups of a replayed bundle to other tasks, group by group: guards know a bundle by its pieces."""
        found: list[int] = []
        given = iter(dests)
        for inc, size in zip(origin.incs, origin.sizes or [1] * origin.bundles, strict=True):
            bundle = list(islice(given, size))
            if inc & REPLAY_MAX:
                free = sorted(range(len(self.pending)), key=lambda task: (self.pending[task], -self._heard[task]))
                moved = dict(zip(dict.fromkeys(bundle), free, strict=False))
                bundle = [moved[dest] for dest in bundle]
            found += bundle
        return found
