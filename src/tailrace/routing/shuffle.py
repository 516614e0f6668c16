"""Shuffle: each tuple to the next task in turn. Even to the tuple, blind to how fast the tasks are.

Loses when tasks differ in speed: the slowest gets as much as the fastest, and its queue sets the tail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .weighted import together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.batch import Batch


class Shuffle:
    """Round robin over the given tasks; the start differs per sender so that senders do not march in step.

    Over all tasks a bundle is cut into the same pieces wherever the turn is, and by every sender. Over some of them, or
    with one that comes more often, it is not, and guards behind the edge would not know a replay again: there tracked
    bundles are dealt out ``whole``.
    """

    several = False
    unwraps = False

    def __init__(self, targets: Sequence[int], start: int = 0, *, whole: bool = False) -> None:
        self._targets = targets
        self._whole = whole
        self._at = start % len(targets)

    def choose(self, values: list[Any], origin: Batch) -> list[int]:
        """Deal the values out in turn, or the bundles."""
        if self._whole and origin.heads and origin.sizes is not None:
            return together(self._deal(len(origin.sizes)), origin.sizes)
        return self._deal(len(values))

    def _deal(self, count: int) -> list[int]:
        targets, at = self._targets, self._at
        n = len(targets)
        self._at = (at + count) % n
        if at + count <= n:  # few values for many tasks: no walk around all of them
            return list(targets[at : at + count])
        ring = [*targets[at:], *targets[:at]]
        return (ring * (count // n + 1))[:count]
