"""The virtual clock and what is due on it: a heap of (time, number, action, argument).

Equal times come in the order in which they were entered, so that a run is the same every time. Why a plain heap and no
array code: docs/decisions/009-simulator.md.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Agenda:
    """Runs actions in order of time."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._heap: list[tuple[int, int, Callable[[Any], None], Any]] = []
        self._entered = 0

    def __len__(self) -> int:
        return len(self._heap)

    def at(self, time_ns: int, action: Callable[[Any], None], argument: Any = None) -> None:
        """Enter an action."""
        self._entered += 1
        heappush(self._heap, (time_ns, self._entered, action, argument))

    def run(self, until_ns: int) -> None:
        """Run what is due until a time; the clock stands at the last action."""
        heap = self._heap
        while heap and heap[0][0] <= until_ns:
            self.now_ns, _, action, argument = heappop(heap)
            action(argument)
