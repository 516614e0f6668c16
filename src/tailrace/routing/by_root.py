"""By root: everything that comes of one root tuple to the same task, so that two incarnations meet at one guard.

Used in place of shuffle in front of sinks and un-keyed state while roots are tracked. As even as a hash is; loses, like
shuffle, when tasks differ in speed, and cannot be weighted without letting a replay past its guard.
"""

from __future__ import annotations

from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from tailrace.batch import mix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.batch import Batch

_TAG = 0x5851F42D4C957F2D


class ByRoot:
    """Route by a hash of the root id over the given tasks."""

    several = False
    unwraps = False

    def __init__(self, targets: Sequence[int]) -> None:
        #: A task may stand here several times, to get as many times the roots.
        self._targets = targets

    def choose(self, values: list[Any], origin: Batch) -> list[int]:
        """Give all values of a root its task."""
        targets = self._targets
        n = len(targets)
        if n == 1:
            return [targets[0]] * len(values)
        dests = [targets[mix(root, _TAG) % n] for root in origin.roots]
        if origin.sizes is None:
            return dests
        return list(chain.from_iterable(map(repeat, dests, origin.sizes)))
