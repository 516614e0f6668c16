"""Load aware: each tuple to the task with the least known load. What rivals ship, and the baseline of ``capacity``.

Known is what this sender has sent to a task and the task has not finished (Flink's least-loaded channel), or, where
tasks report the lengths of their queues, the last report and what was sent since (Storm's load-aware shuffle, whose
reports are a second old).

When it loses: with reports all senders pour into the queue that was shortest a moment ago (the herd); and a length says
nothing of how fast a queue is served: two tuples at a slow task wait longer than four at a fast one, which is what
``shortest_delay`` adds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .weighted import together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.batch import Batch


class LoadAware:
    """Greedy over known loads; ties go to the next task in turn, from another one for each sender.

    ``pending`` is what is under way already where the rule takes over from another one at run time.
    """

    several = False
    unwraps = False

    def __init__(self, tasks: int, start: int = 0, pending: Sequence[float] | None = None) -> None:
        self._known = list(pending or [0.0] * tasks)
        self._at = start % tasks

    def report(self, loads: Sequence[float]) -> None:
        """Take the lengths of the tasks' queues as they are known now."""
        self._known = list(loads)

    def finished(self, dest: int, tuples: int) -> None:
        """Note that a task has finished tuples of this sender."""
        self._known[dest] -= tuples

    def choose(self, values: list[Any], origin: Batch) -> list[int]:
        """Give each tracked bundle, else each value, to the least loaded and count it there."""
        if origin.heads and origin.sizes is not None:
            return together([self._least(size) for size in origin.sizes], origin.sizes)
        return [self._least(1) for _ in values]

    def _least(self, tuples: int) -> int:
        known = self._known
        least = min(known)
        try:
            dest = known.index(least, self._at)
        except ValueError:
            dest = known.index(least)
        known[dest] += tuples
        self._at = (dest + 1) % len(known)
        return dest
