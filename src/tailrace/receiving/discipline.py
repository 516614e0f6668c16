"""Who takes which waiting tuple: the disciplines of an inbox, and the baseline where each task has its own queue.

A discipline holds items (the runtime's batches, the simulator's tuples) and control records in order, hands items to
consumers and remembers what each has claimed. Pure bookkeeping; the caller does the work and moves the bytes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Control:
    """A control record (marker, watermark, low-water mark, epoch switch, end of stream) on its way in band."""

    record: Any


class Discipline(Protocol[T]):
    """Where items wait for the tasks of one operator on one node."""

    def put(self, task: int, item: T | Control) -> None:
        """Let an item that was sent to a task wait."""
        ...

    def claim(self, consumer: int) -> T | Control | None:
        """Give a consumer the next item it may work on; None when there is none for it now.

        Whoever works on several pieces at once is a consumer for each of them.
        """
        ...

    def done(self, consumer: int) -> None:
        """Note that a consumer has finished all that it claimed."""
        ...

    def release(self, consumer: int) -> int:
        """Put back what a dead consumer had claimed; gives how many items."""
        ...

    def waiting(self, task: int) -> int:
        """How many items wait where this task takes from."""
        ...


class PerTask(Generic[T]):
    """Each task has its own queue (the baseline): order per task for nothing, but queues grow beside idle siblings.

    Loses to ``shared`` wherever two tasks of a shuffle-fed operator sit on one node and are busy; keyed operators need
    it.
    """

    def __init__(self, tasks: int) -> None:
        self._queues: list[deque[T | Control]] = [deque() for _ in range(tasks)]
        self._claims: list[list[T]] = [[] for _ in range(tasks)]

    def put(self, task: int, item: T | Control) -> None:
        """Queue behind what this task already has."""
        self._queues[task].append(item)

    def claim(self, consumer: int) -> T | Control | None:
        """Give the task's own oldest item."""
        queue = self._queues[consumer]
        if not queue:
            return None
        item = queue.popleft()
        if not isinstance(item, Control):
            self._claims[consumer].append(item)
        return item

    def done(self, consumer: int) -> None:
        """Forget the claims."""
        self._claims[consumer].clear()

    def release(self, consumer: int) -> int:
        """Put the claims back in front, in their order, for the consumer's successor."""
        claims = self._claims[consumer]
        self._queues[consumer].extendleft(reversed(claims))
        released = len(claims)
        claims.clear()
        return released

    def waiting(self, task: int) -> int:
        """How many items the task's queue holds."""
        return len(self._queues[task])
