"""Round robin over the outboxes of an operator: the work-conserving one, and the idling one of Hone's section 4.4.

``RoundRobin`` passes over empty outboxes. It gives each outbox an equal share of the uplink, so that one with more than
its share of tuples falls behind: it loses to ``lbf`` in the largest backlog, never in the mean delay (equal tuples and
no idling give equal means in any order). ``IdlingRoundRobin`` visits queue t mod N and wastes the turn when that queue
is empty; the figures of the paper are against it. It is kept for the simulator only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .gate import Cursor, Entry, Grant, TurnsOfOperators, following

if TYPE_CHECKING:
    from collections.abc import Sequence


class RoundRobin(TurnsOfOperators):
    """Grants the next outbox that has something to send."""

    def pick(self, entries: Sequence[Entry], cursor: Cursor) -> Entry:
        """Choose the next in turn."""
        by_number = {entry.outbox: entry for entry in entries}
        return by_number[following(sorted(by_number), cursor.outbox)]


class IdlingRoundRobin(TurnsOfOperators):
    """Grants the next outbox whether it has something to send or not."""

    def decide(self, table: Sequence[Entry], cursor: Cursor, now_ns: int) -> Grant | None:
        """Visit the next outbox of the table."""
        if not table:
            return None
        by_number = {entry.outbox: entry for entry in table}
        entry = by_number[following(sorted(by_number), cursor.outbox)]
        found = self.grant(entry, entry.operator, now_ns)
        return found if entry.tuples else found._replace(tuples_max=0)
