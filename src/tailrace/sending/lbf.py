"""Largest backlog first (Hone, section 4.3): among the tasks of an operator on a node, the longest queue sends next.

With B_i(t+1) = max(B_i(t) + a_i(t) - x_i(t), 0) and one tuple leaving per slot, LBF serves argmax_i B_i(t); the largest
backlog over time stays within 3 + ceil(log2 N) of the best that knows the future. Changed here: a grant is a quantum of
tuples for at most ``tau`` and passes on at once when the outbox is empty; an outbox that waited over ``max_wait_ns``
goes first, since the shortest queue might otherwise never be served; among equals the oldest goes.

When it loses: a tuple in a short queue waits for all longer ones, so p99 is mostly worse than under ``fifo``; what is
complete only with its last tuple (a sentence) completes later, since queues are served in turns; the mean wait of a
tuple is that of any other order. The bound is on the worst case: with steady arrivals in bursts, where queues are short
and a burst is most of a queue, its largest backlog can be larger than that of ``fifo``. Long grants undo it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .gate import Cursor, Entry, TurnsOfOperators, oldest

if TYPE_CHECKING:
    from collections.abc import Sequence


class LargestBacklogFirst(TurnsOfOperators):
    """Grants the outbox with the most tuples."""

    def pick(self, entries: Sequence[Entry], cursor: Cursor) -> Entry:
        """Choose the longest queue, the oldest among equals."""
        del cursor
        return min(entries, key=lambda entry: (-entry.tuples, entry.since_ns, entry.outbox))

    def overdue(self, waiting: Sequence[Entry], now_ns: int) -> Entry | None:
        """Find the oldest outbox that was passed over for too long."""
        found = oldest(waiting)
        return found if now_ns - found.since_ns > self.settings.max_wait_ns else None
