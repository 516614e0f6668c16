"""Links between nodes that take a fixed time, for nodes that are in truth processes of one machine.

``ProcessHost(hosts=..., link_delay_ms=0.5)`` gives its workers connections that reach another host by TCP only and
holds what goes there back for so long. The proxy (``testing.proxy``) does the same from outside and can do worse things
to a link, but takes threads and copies of its own; with a dozen links on two cores these would be what one measures.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from tailrace.transport.connections import Connections

if TYPE_CHECKING:
    from tailrace.config import Settings
    from tailrace.protocol import Peer

#: Messages held for one peer; beyond them the sender feels a full link.
HELD_MAX = 4096
_US_PER_S = 1e6
#: How soon a message that found no room or no connection is tried again.
_RETRY_US = 500


class DelayedConnections(Connections):
    """Connections for which other host names are other nodes, a little away."""

    def __init__(self, slot: int, secret: bytes, host: str, settings: Settings, *, delay_ms: float) -> None:
        super().__init__(slot, secret, host, settings)
        self._host = host
        self._delay_s = delay_ms / 1e3
        self._away: set[int] = set()
        self._held: dict[int, deque[tuple[float, bytes]]] = {}
        #: Whether something that was due found no room or no connection.
        self._stuck = False

    def introduce(self, peer: Peer) -> None:
        """Learn how to reach a peer; what was under way to the one before it is gone."""
        super().introduce(peer)
        self._held.pop(peer.slot, None)
        (self._away.add if peer.host != self._host else self._away.discard)(peer.slot)

    def choose(self, peer: Peer) -> str:
        """Shared memory and Unix sockets do not reach another node, even if that is on this machine."""
        return "tcp" if peer.host != self._host else super().choose(peer)

    def send(self, slot: int, message: bytes) -> bool:
        """Send at once within the node, else when its time has come."""
        if slot not in self._away:
            return super().send(slot, message)
        held = self._held.setdefault(slot, deque())
        if len(held) >= HELD_MAX:
            return False
        held.append((time.monotonic() + self._delay_s, message))
        return True

    def poll(self) -> list[bytes | memoryview]:
        """Send what is due, take in what has come."""
        self._release()
        return super().poll()

    def wait(self, timeout_us: int, *, patient: bool = False) -> None:
        """Sleep no longer than until something is due."""
        due_s = min((held[0][0] for held in self._held.values() if held), default=None)
        if due_s is not None:
            left_us = _RETRY_US if self._stuck else max(0, int((due_s - time.monotonic()) * _US_PER_S))
            timeout_us = min(timeout_us, left_us)
        super().wait(timeout_us, patient=patient)

    def _release(self) -> None:
        now_s = time.monotonic()
        self._stuck = False
        for slot, held in self._held.items():
            while held and held[0][0] <= now_s:
                if not super().send(slot, held[0][1]):
                    self._stuck = True
                    break
                held.popleft()
