"""The outgoing queue of one task in front of a limited uplink: its outboxes, oldest tuples first over all of them.

Pure bookkeeping beside the outboxes, which hold the tuples; ``uplink`` fills and empties it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tailrace.sending.outbox import Outbox

    from .post import PostOffice
    from .task import Task

#: What a tuple is taken to be before any was sent, and how much each one that was counts.
FIRST_GUESS_BYTES = 64
_WEIGHT = 0.05


class Head(NamedTuple):
    """The oldest tuples of an outbox: since when they wait, how many came together, and where they are."""

    since_ns: int
    tuples: int
    box: Outbox


class Queue:
    """What one task has to send off its node."""

    def __init__(self, number: int, task: Task) -> None:
        self.number = number
        self.operator = task.stage.id
        self.alone = task.stage.tasks == 1
        self.place = (task.stage.id, task.index)
        self.tuples = 0
        #: Most tuples that waited since the last report.
        self.most = 0
        #: What a tuple takes on the link, as the board was told last.
        self.shown_bytes = FIRST_GUESS_BYTES
        self._tuple_bytes = float(FIRST_GUESS_BYTES)
        #: Per outbox how many tuples came together and when, oldest first.
        self._filed: dict[Outbox, deque[list[int]]] = {}

    def file(self, box: Outbox, now_ns: int) -> None:
        """Note what has come into an outbox since it was last looked at."""
        filed = self._filed.setdefault(box, deque())
        known = sum([count for count, _ in filed])
        if len(box.values) < known:  # what waited went another way
            self.tuples -= known
            filed.clear()
            known = 0
        if fresh := len(box.values) - known:
            filed.append([fresh, now_ns])
            self.tuples += fresh
            self.most = max(self.most, self.tuples)

    def took(self, box: Outbox, tuples: int, size: int) -> None:
        """Note what was sent of an outbox, in so many bytes; whole bundles, and those came together."""
        self._tuple_bytes += _WEIGHT * (size / tuples - self._tuple_bytes)
        filed = self._filed[box]
        self.tuples -= tuples
        while tuples:
            part = min(tuples, filed[0][0])
            tuples -= part
            filed[0][0] -= part
            if not filed[0][0]:
                filed.popleft()
        if not filed:
            del self._filed[box]

    def show_bytes(self) -> int:
        """What a tuple takes on the link, by those that were sent; the board is told now."""
        self.shown_bytes = max(1, round(self._tuple_bytes))
        return self.shown_bytes

    def heads(self, post: PostOffice) -> list[Head]:
        """The oldest tuples of every outbox that may send now."""
        return [
            Head(filed[0][1], filed[0][0], box)
            for box, filed in self._filed.items()
            if filed and box.room > 0 and post.accepts(box.slot)
        ]

    def waiting(self, heads: list[Head]) -> int:
        """How many tuples wait in the outboxes that may send."""
        if len(heads) == len(self._filed):
            return self.tuples
        return sum([count for head in heads for count, _ in self._filed[head.box]])

    @property
    def boxes(self) -> list[Outbox]:
        """The outboxes with something to send."""
        return list(self._filed)
