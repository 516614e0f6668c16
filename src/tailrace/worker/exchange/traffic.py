"""Counts what a worker's tasks send by kind of link: to its own tasks, to others of its node, to other nodes.

Asked by the brain with every report. Bounded by the number of edges, so it is exact however many pairs of tasks there
are; a pair counts for the link it has when the report is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.reports import LinkReport

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tailrace.protocol import Peer
    from tailrace.worker.execution.task import Task

SAME_WORKER, SAME_NODE, OTHER_NODE = range(3)


class LinkMeter:
    """Totals of one worker since its start."""

    def __init__(self, slot: int) -> None:
        self._slot = slot
        #: Per edge and kind of link: tuples, bytes.
        self._totals: dict[tuple[int, int], list[int]] = {}
        self._seen: dict[int, tuple[int, int]] = {}

    def begin(self, tasks: Iterable[Task]) -> None:
        """Tasks have come or gone: what those that came have sent elsewhere is not counted here."""
        boxes = [box for task in tasks for outlet in task.outlets.values() for box in outlet.boxes]
        self._seen = {box.channel: self._seen.get(box.channel, (box.sent_total, box.bytes_sent)) for box in boxes}

    def read(self, tasks: Iterable[Task], peers: Mapping[int, Peer]) -> tuple[LinkReport, ...]:
        """What was sent by each edge and kind of link."""
        here = peers[self._slot].node_name if self._slot in peers else ""
        for task in tasks:
            for outlet in task.outlets.values():
                for box in outlet.boxes:
                    now = box.sent_total, box.bytes_sent
                    before = self._seen.get(box.channel, (0, 0))
                    if now != before:
                        self._seen[box.channel] = now
                        total = self._totals.setdefault((outlet.edge, self._kind(box.slot, here, peers)), [0, 0])
                        # A task that left and came back has begun to count again.
                        total[0] += now[0] - before[0] if now[0] >= before[0] else now[0]
                        total[1] += now[1] - before[1] if now[1] >= before[1] else now[1]
        return tuple(LinkReport(edge, kind, *total) for (edge, kind), total in sorted(self._totals.items()))

    def _kind(self, slot: int, here: str, peers: Mapping[int, Peer]) -> int:
        if slot == self._slot:
            return SAME_WORKER
        peer = peers.get(slot)
        return SAME_NODE if peer is not None and peer.node_name == here else OTHER_NODE
