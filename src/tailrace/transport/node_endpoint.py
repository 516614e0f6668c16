"""What a worker has on its node for others to find: a probe, a Unix socket's path and, where it can be had, a ring.

Made and removed by the worker; if the worker is killed, the node's watcher removes it (``segments``). Peers prove that
they stand on the same node by reading the probe, whose nonce the coordinator gave them; host names prove nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.transport import ring as rings
from tailrace.transport.segments import Folder, NoSharedMemoryError, Probe, RingUnavailableError, reads_probe

if TYPE_CHECKING:
    from tailrace.config import Settings
    from tailrace.protocol import Peer


class NodeEndpoint:
    """The folder of one worker and what is in it."""

    def __init__(self, settings: Settings) -> None:
        self._folder = Folder.make()
        self.probe = self._folder.write_probe()
        self.uds_path = str(self._folder.path / "inbox.sock")
        self.reader: rings.RingReader | None = None
        self.why_no_ring = ""
        if settings.transport not in {"auto", "ring"}:
            self.why_no_ring = f"the setting transport is {settings.transport!r}"
            return
        try:
            self.reader = rings.RingReader(str(self._folder.path / "ring"), settings.ring_bytes)
        except (NoSharedMemoryError, RingUnavailableError) as error:
            if settings.transport == "ring":
                self.close()
                raise
            self.why_no_ring = error.message
            return
        self.reader.set_waiting(rings.Waiting[settings.ring_waiting.upper()], settings.ring_spin_us)

    def path_of(self, name: str) -> str:
        """Where a further file of this worker goes; it is removed with the folder."""
        return str(self._folder.path / name)

    @property
    def ring_path(self) -> str:
        """Where peers of this node find the ring; empty without one."""
        return "" if self.reader is None else self.reader.path

    def close(self) -> None:
        """Unmap the ring and remove the folder."""
        if self.reader is not None:
            self.reader.close()
        self._folder.close()


def same_node(peer: Peer) -> bool:
    """Whether this process can read the peer's probe, so that both stand on one node."""
    return reads_probe(Probe(peer.probe_path, peer.probe_nonce))
