"""Shuffle: each tuple to the next task in turn. Even to the tuple, blind to how fast the tasks are.

Loses when tasks differ in speed: the slowest gets as much as the fastest, and its queue sets the tail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.batch import Batch


class Shuffle:
    """Round robin over the given tasks; the start differs per sender so that senders do not march in step."""

    several = False
    unwraps = False

    def __init__(self, targets: Sequence[int], start: int = 0) -> None:
        self._targets = targets
        self._at = start % len(targets)

    def choose(self, values: list[Any], origin: Batch) -> list[int]:
        """Deal the values out in turn."""
        del origin
        targets, at = self._targets, self._at
        n, count = len(targets), len(values)
        self._at = (at + count) % n
        if at + count <= n:  # few values for many tasks: no walk around all of them
            return list(targets[at : at + count])
        ring = [*targets[at:], *targets[:at]]
        return (ring * (count // n + 1))[:count]
