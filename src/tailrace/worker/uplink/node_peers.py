"""Which workers stand behind the same uplink as this one, and the table in which they take turns.

``main`` makes one per worker where a limited link is set and hands it to the brain, which asks again whenever a worker
was replaced. What a node is comes from the setting ``node_is``; behind one uplink are those of a node that can read
each other's probe.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tailrace.transport.node_endpoint import same_node
from tailrace.transport.segments import SegmentError
from tailrace.worker.uplink.shared_memory import UplinkTable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.protocol import Peer

TABLE_NAME = "uplink"


def node_name(node_is: str, executor: str, slot: int) -> str:
    """Name the node of a worker where that is not its host: peers of another name are on another node."""
    if node_is == "host":
        return ""
    return f"executor-{executor}" if node_is == "executor" else f"worker-{slot}"


class NodePeers:
    """The workers of this node, as far as the gate goes."""

    def __init__(self, slot: int, node: str, path: str) -> None:
        self.path = path
        self._slot = slot
        self._node = node
        self._own = UplinkTable.create(path)
        self._shared: tuple[str, UplinkTable] = (path, self._own)

    def meet(self, peers: Iterable[Peer]) -> tuple[frozenset[int], UplinkTable]:
        """Find the slots of this node and the table they share: that of the lowest slot among them."""
        near = {
            peer.slot: peer.uplink_table
            for peer in peers
            if peer.slot != self._slot and peer.node == self._node and peer.uplink_table and same_node(peer)
        }
        near[self._slot] = self.path
        self._share(near[min(near)])
        return frozenset(near), self._shared[1]

    def _share(self, path: str) -> None:
        if path == self._shared[0]:
            return
        try:
            found = self._own if path == self.path else UplinkTable.attach(path)
        except SegmentError as error:
            # Its maker is gone; until its successor is known this worker keeps turns with itself.
            logging.getLogger("tailrace.worker").warning("worker %d: no common table: %s", self._slot, error)
            path, found = self.path, self._own
        self._let_go()
        self._shared = (path, found)

    def _let_go(self) -> None:
        if self._shared[1] is not self._own:
            self._shared[1].close()

    def close(self) -> None:
        """Let go of all tables; the file goes with the worker's folder."""
        self._let_go()
        self._own.close()
