"""The limited uplink of a node: outboxes in front of it, and the runtime's gate that says which one sends next.

A tuple holds the link for bytes / rate and arrives a delay later. The table shows every outbox as it is; its senders
refresh it every tau, as those of the runtime do.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from tailrace.sending.gate import Cursor, Entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.sending.gate import Gate, Grant

    from .agenda import Agenda
    from .tasks import Item

_NS_PER_S = 1_000_000_000


class SimulatedUplink:
    """One node's way out."""

    def __init__(
        self, agenda: Agenda, gate: Gate, bytes_per_s: float, tau_ns: int, deliver: Callable[[Item], None]
    ) -> None:
        self._agenda = agenda
        self._gate = gate
        self._ns_per_byte = _NS_PER_S / bytes_per_s
        self._tau_ns = tau_ns
        self._deliver = deliver
        self._queues: list[deque[Item]] = []
        self._table: list[Entry] = []
        self._cursor = Cursor()
        self._grant: Grant | None = None
        self._left = 0
        self._busy = False
        self._refreshing = False
        self._from_ns = 0
        #: Most tuples that ever waited, and how long each waited, by outbox, since ``measure_from``.
        self.most: list[int] = []
        self.waits_ns: list[list[int]] = []
        self.busy_ns = 0

    def outbox(self, operator: int, destination: int, *, alone: bool) -> int:
        """Add an outbox; gives its number."""
        number = len(self._queues)
        self._queues.append(deque())
        self._table.append(Entry(number, operator, destination, 0, 0, 0, 0, alone))
        self.most.append(0)
        self.waits_ns.append([])
        return number

    def measure_from(self, time_ns: int) -> None:
        """Leave what comes before out of the figures."""
        self._from_ns = time_ns

    def put(self, outbox: int, item: Item) -> None:
        """Let a tuple wait for the link."""
        item.since_ns = now_ns = self._agenda.now_ns
        queue = self._queues[outbox]
        queue.append(item)
        self._show(outbox)
        if now_ns >= self._from_ns and len(queue) > self.most[outbox]:
            self.most[outbox] = len(queue)
        if not self._refreshing:
            self._refreshing = True
            self._agenda.at(now_ns + self._tau_ns, self._refresh)
        if not self._busy:
            self._next(None)

    def _show(self, outbox: int) -> None:
        queue, old, now_ns = self._queues[outbox], self._table[outbox], self._agenda.now_ns
        since_ns = queue[0].since_ns if queue else now_ns
        # Bytes decide nothing in the gates there are, so the simulated table leaves them out.
        self._table[outbox] = Entry(
            outbox, old.operator, old.destination, len(queue), 0, since_ns, now_ns, old.alone
        )  # fmt: skip

    def _refresh(self, _: None) -> None:
        waiting = [outbox for outbox, queue in enumerate(self._queues) if queue]
        for outbox in waiting:
            self._show(outbox)
        self._refreshing = bool(waiting)
        if waiting:
            self._agenda.at(self._agenda.now_ns + self._tau_ns, self._refresh)

    def _next(self, _: None) -> None:
        now_ns, grant = self._agenda.now_ns, self._grant
        if grant is None or not self._left or now_ns >= grant.until_ns or not self._queues[grant.outbox]:
            grant = self._grant = self._gate.decide(self._table, self._cursor, now_ns)
            if grant is None:
                self._busy = False
                return
            self._cursor, self._left = grant.cursor, grant.tuples_max
        self._busy = True
        self._left -= 1
        item = self._queues[grant.outbox].popleft()
        self._show(grant.outbox)
        if item.since_ns >= self._from_ns:
            self.waits_ns[grant.outbox].append(now_ns - item.since_ns)
        took_ns = max(1, round(item.bytes * self._ns_per_byte))
        self.busy_ns += took_ns
        self._agenda.at(now_ns + took_ns, self._sent, item)

    def _sent(self, item: Item) -> None:
        self._deliver(item)
        self._next(None)
