"""FIFO: whoever has waited longest sends next. The baseline, and what plain sockets do.

Fair to tuples, blind to queues: a task that made much output at once holds its siblings' tuples up behind its own, and
its own queue is not shortened before theirs. Loses to ``lbf`` in the largest backlog when outputs per tuple vary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .gate import Cursor, Entry, Grant, TurnsOfOperators, oldest

if TYPE_CHECKING:
    from collections.abc import Sequence


class Fifo(TurnsOfOperators):
    """Grants the outbox whose first tuple is the oldest, whichever operator it belongs to."""

    def decide(self, table: Sequence[Entry], cursor: Cursor, now_ns: int) -> Grant | None:
        """Pick the oldest; operators take no turns here, as tuples go in the order in which they came."""
        waiting = self.waiting(table, now_ns)
        if not waiting:
            return None
        found = oldest(waiting)
        return self.grant(found, cursor.operator, now_ns)._replace(tuples_max=found.first)

    def pick(self, entries: Sequence[Entry], cursor: Cursor) -> Entry:
        """Choose the oldest."""
        del cursor
        return oldest(entries)
