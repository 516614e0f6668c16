"""Who the workers are and who has which keys: plain data inside messages, read by both sides."""

from __future__ import annotations

import msgspec


class Peer(msgspec.Struct, frozen=True):
    """How to reach the worker that has a slot now."""

    slot: int
    attempt: int
    host: str
    tcp: tuple[str, int]
    uds: str = ""
    ring: str = ""
    probe_path: str = ""
    probe_nonce: str = ""
    why_no_ring: str = ""
    #: The name of the worker's node where that is not its host.
    node: str = ""
    #: The file of its uplink table, where the uplink is limited.
    uplink_table: str = ""

    @property
    def node_name(self) -> str:
        """What placement and progress call its node."""
        return self.node or self.host


class KeyTable(msgspec.Struct, frozen=True):
    """Which task of a stage has which key groups, and how bundles are cut; see ``routing.key_table``.

    A group's *part* below the number of tasks is the task itself; the parts from there on are sets of groups that are
    cut off by themselves, and ``extra`` names the task that has each. ``before`` and ``before_extra`` are the cut of
    roots below the offsets of ``since``, per partition, as long as such roots may be open. ``floors`` are the first
    incarnations of sources that had to be restarted: an older one of a root from ``since`` on was cut the old way.
    """

    parts: list[int]
    extra: list[int] = []
    before: list[int] = []
    before_extra: list[int] = []
    since: dict[int, int] = {}
    floors: dict[int, int] = {}
