"""The gate: which outgoing queue of a node may use the shared uplink next, and for how long.

A queue here is what one task has to send off its node, whichever tasks it goes to, as in Hone. The senders of a node
put the backlogs of their queues in a table; whoever finds the uplink free asks the gate, sends what it grants and asks
again. Gates are pure: table, cursor and time in, grant and new cursor out, so that a cursor in shared memory lets
several processes take turns (``worker.uplink``). Acks and control records do not pass here.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

STALE_AFTER_TAUS = 2
#: How many tasks of a topology may have a queue behind a gate; the shared memory of a node has a row for each.
GATE_TASKS_MAX = 4096


class Entry(NamedTuple):
    """One outbox in the table. ``alone`` marks the outboxes of an operator with a single task."""

    outbox: int
    operator: int
    destination: int
    tuples: int
    bytes: int
    #: Since when its oldest tuple has waited.
    since_ns: int
    #: When its sender last wrote this entry; a dead sender's entry grows old.
    refreshed_ns: int
    alone: bool = False
    #: How many of its tuples came together with the oldest.
    first: int = 1


class Cursor(NamedTuple):
    """Whose turn it was last: all that a gate remembers. Two numbers, so that they fit beside the table."""

    operator: int = -1
    outbox: int = -1


class Grant(NamedTuple):
    """Leave to send whole tuples of one outbox until the number or the time is used up, or it is empty.

    A grant of no tuples wastes the turn; only the idling round robin gives one.
    """

    outbox: int
    tuples_max: int
    until_ns: int
    cursor: Cursor


@dataclass(frozen=True)
class GateSettings:
    """Scheduling interval, tuples per grant, and how long an outbox may be passed over."""

    tau_ns: int = 10_000_000
    quantum: int = 4
    max_wait_ns: int = 100_000_000


class Gate(Protocol):
    """Chooses the next outbox."""

    def decide(self, table: Sequence[Entry], cursor: Cursor, now_ns: int) -> Grant | None:
        """Say who sends next, None when nothing waits."""
        ...


class TurnsOfOperators:
    """What all gates share: old entries do not count, and operators take turns whatever order holds within them."""

    def __init__(self, settings: GateSettings | None = None) -> None:
        self.settings = settings or GateSettings()

    def decide(self, table: Sequence[Entry], cursor: Cursor, now_ns: int) -> Grant | None:
        """Pick the operator whose turn it is, then one of its outboxes."""
        waiting = self.waiting(table, now_ns)
        if not waiting:
            return None
        late = self.overdue(waiting, now_ns)
        if late is not None:
            return self.grant(late, cursor.operator, now_ns)
        first = waiting[0].operator
        if all(entry.operator == first for entry in waiting):
            return self.grant(self._within(waiting, cursor), first, now_ns)
        of_operator: dict[int, list[Entry]] = defaultdict(list)
        for entry in waiting:
            of_operator[entry.operator].append(entry)
        operator = following(sorted(of_operator), cursor.operator)
        return self.grant(self._within(of_operator[operator], cursor), operator, now_ns)

    def waiting(self, table: Sequence[Entry], now_ns: int) -> list[Entry]:
        """Entries with something to send that their sender has refreshed lately."""
        oldest_ns = now_ns - STALE_AFTER_TAUS * self.settings.tau_ns
        return [entry for entry in table if entry.tuples > 0 and entry.refreshed_ns >= oldest_ns]

    def overdue(self, waiting: Sequence[Entry], now_ns: int) -> Entry | None:
        """Find the outbox that must not wait any longer, if there is one."""
        del waiting, now_ns
        return None

    def grant(self, entry: Entry, operator: int, now_ns: int) -> Grant:
        """Let an outbox send a quantum, for the scheduling interval at most."""
        cursor = Cursor(operator, entry.outbox)
        return Grant(entry.outbox, self.settings.quantum, now_ns + self.settings.tau_ns, cursor)

    def _within(self, entries: Sequence[Entry], cursor: Cursor) -> Entry:
        return oldest(entries) if entries[0].alone else self.pick(entries, cursor)

    def pick(self, entries: Sequence[Entry], cursor: Cursor) -> Entry:
        """Choose among the outboxes of one operator; there is at least one."""
        raise NotImplementedError


def oldest(entries: Sequence[Entry]) -> Entry:
    """The outbox whose first tuple has waited longest; the lowest number among equals."""
    return min(entries, key=lambda entry: (entry.since_ns, entry.outbox))


def following(numbers: Sequence[int], last: int) -> int:
    """The next number after ``last`` in a sorted ring."""
    return next((number for number in numbers if number > last), numbers[0])
