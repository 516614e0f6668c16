"""The outgoing queue of one task in front of a limited uplink: its outboxes, oldest tuples first over all of them.

Pure bookkeeping beside the outboxes, which hold the tuples; ``uplink`` fills and empties it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tailrace.sending.outbox import Outbox
    from tailrace.worker.exchange.outgoing import OutgoingBuffer
    from tailrace.worker.execution.task import Task

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
        #: Whether the table is behind, and when it has to be told in any case.
        self.changed = True
        self.due_ns = 0
        #: How many tuples might be sent and what one takes on the link, as the table was told last.
        self.shown_tuples = 0
        self.shown_bytes = FIRST_GUESS_BYTES
        self._tuple_bytes = float(FIRST_GUESS_BYTES)
        #: Per outbox how many tuples it has here in all, and how many came together and when, oldest first.
        self._known: dict[Outbox, int] = {}
        self._filed: dict[Outbox, deque[list[int]]] = {}

    def read_most(self) -> int:
        """The most tuples that waited since this was last asked."""
        most, self.most = self.most, self.tuples
        return most

    def file(self, box: Outbox, now_ns: int) -> None:
        """Note what has come into an outbox, or that it may have room, since it was last looked at."""
        self.changed = True
        held = len(box.values)
        known = self._known.get(box, 0)
        if held < known:  # what waited went another way
            self.tuples -= known
            known = 0
        if not known:
            self._filed[box] = deque()
        if held > known:
            self._filed[box].append([held - known, now_ns])
            self._known[box] = held
            self.tuples += held - known
            self.most = max(self.most, self.tuples)

    def took(self, box: Outbox, tuples: int, size: int) -> None:
        """Note what was sent of an outbox, in so many bytes; whole bundles, and those came together."""
        self._tuple_bytes += _WEIGHT * (size / tuples - self._tuple_bytes)
        self.tuples -= tuples
        self._known[box] -= tuples
        filed = self._filed[box]
        while tuples:
            part = min(tuples, filed[0][0])
            tuples -= part
            filed[0][0] -= part
            if not filed[0][0]:
                filed.popleft()
        if not filed:
            del self._filed[box], self._known[box]

    def head(self, box: Outbox, outgoing: OutgoingBuffer) -> Head | None:
        """The oldest tuples of an outbox, if there are any and they may be sent now."""
        filed = self._filed.get(box)
        if not filed or box.room <= 0 or not outgoing.accepts(box.slot):
            return None
        return Head(filed[0][1], filed[0][0], box)

    def heads(self, outgoing: OutgoingBuffer) -> dict[Outbox, Head]:
        """The oldest tuples of every outbox that may send now."""
        return {box: head for box in self._filed if (head := self.head(box, outgoing)) is not None}

    def show(self, heads: dict[Outbox, Head]) -> tuple[int, int]:
        """How many tuples wait in the outboxes that may send, and what one takes, by those sent; the table is told."""
        self.changed = False
        self.shown_tuples = self.tuples if len(heads) == len(self._filed) else sum([self._known[box] for box in heads])
        self.shown_bytes = max(1, round(self._tuple_bytes))
        return self.shown_tuples, self.shown_bytes

    @property
    def boxes(self) -> list[Outbox]:
        """The outboxes with something to send."""
        return list(self._filed)
