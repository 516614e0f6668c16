"""At random: each tuple to any task, drawn again. The shuffle of queueing theory, and a baseline for experiments.

With Poisson arrivals each task's queue is then M/M/1, which round robin is better than. When it loses: always, to
``even``; only where senders are so many that their turns are as good as random is it the same.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from .weighted import together

if TYPE_CHECKING:
    from tailrace.batch import Batch


class AtRandom:
    """Draws a task for each tracked bundle, else for each value; the same draws for the same sender."""

    several = False
    unwraps = False

    def __init__(self, tasks: int, sender: int) -> None:
        self._tasks = tasks
        self._random = Random(sender)  # noqa: S311 - it deals tuples, nothing secret

    def choose(self, values: list[Any], origin: Batch) -> list[int]:
        """Draw."""
        draw, tasks = self._random.randrange, self._tasks
        if origin.heads and origin.sizes is not None:
            return together([draw(tasks) for _ in origin.sizes], origin.sizes)
        return [draw(tasks) for _ in values]
