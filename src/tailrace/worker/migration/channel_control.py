"""The ways to and from tasks that move, or whose keys do: holding them, saying so in band, letting them lead elsewhere.

``mover`` and ``key_mover`` say when. Touches outboxes, channels and the rules of edges; knows nothing of plans but
which is the newest that is over.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tailrace.routing.detour import Detour
from tailrace.transport import wire
from tailrace.worker.build import router_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.receiving.inbox import Channel
    from tailrace.sending.outbox import Outbox
    from tailrace.worker.build import Site
    from tailrace.worker.exchange.delivery import Delivery
    from tailrace.worker.exchange.nearness import Nearness
    from tailrace.worker.exchange.outlet import Outlet
    from tailrace.worker.worker_state import WorkerState

EPOCH = struct.Struct("<I")
#: The new epoch of a channel and the slot that its sending task has in it.
MOVED = struct.Struct("<IH")


class ChannelControl:
    """What leads out of one worker's tasks, and into them."""

    def __init__(self, worker: WorkerState, site: Site, delivery: Delivery, nearness: Nearness) -> None:
        self._worker = worker
        self._site = site
        self._delivery = delivery
        self._nearness = nearness
        #: The newest plan that is over, here; what still comes of it is late.
        self.closed = 0
        #: Channels whose sending task has left its slot in a plan that is not over yet, with that slot.
        self._diverted: dict[Channel, int] = {}

    def all(self) -> Iterator[tuple[Outlet, Outbox]]:
        """Every way out of this worker's tasks."""
        for task in self._worker.tasks:
            for outlet in task.outlets.values():
                for box in outlet.boxes:
                    yield outlet, box

    def target(self, outlet: Outlet) -> int:
        """The stage at the end of an edge."""
        return self._worker.program.plan.edges[outlet.edge].dst_stage

    def hold(self, box: Outbox) -> None:
        """Send nothing more from an outbox."""
        box.paused = True
        self._worker.dirty.pop(box, None)

    def release(self, box: Outbox) -> None:
        """Let an outbox send again."""
        box.paused = False
        if box.values or box.ended:
            self._worker.dirty[box] = None

    def off_the_link(self) -> None:
        """Take outboxes that wait for a limited uplink back: some of them may not send now."""
        if self._delivery.uplink is not None:
            self._delivery.uplink.restart()

    def say_paused(self, box: Outbox, epoch: int) -> None:
        """Say, behind what was sent, that no more comes for now."""
        if box.slot == self._worker.slot:
            self._worker.inbound[box.channel][1].paused = epoch
        else:
            self._worker.outgoing.record(box.slot, wire.PAUSED, box.channel, EPOCH.pack(epoch))

    def say_moved(self, box: Outbox, channel_epoch: int, slot: int) -> None:
        """Say, behind what was sent, from where the rest comes."""
        self._worker.outgoing.record(box.slot, wire.MOVED, box.channel, MOVED.pack(channel_epoch, slot))

    def divert(self, channel: Channel, channel_epoch: int, slot: int, sender: int) -> None:
        """The task at the other end of a channel leaves its slot, or has come back to it."""
        undone = channel_epoch % 2 == 1
        if not undone and channel_epoch // 2 <= self.closed:
            return  # given up in the meantime: what follows from the sender says so
        if channel.channel_epoch != channel_epoch:
            if not undone:
                self._diverted[channel] = channel.slot
            channel.slot = slot
            channel.reset(channel_epoch)
        if not undone and sender != self._worker.slot:
            self._worker.outgoing.record(sender, wire.SEEN, channel.id, EPOCH.pack(channel_epoch))

    def undo(self, channel_epoch: int) -> None:
        """A plan was given up: what its tasks send comes from their old places."""
        for channel, slot in self._diverted.items():
            if channel.channel_epoch == channel_epoch:  # else the old place itself has said that it goes on
                channel.slot = slot

    def end(self, epoch: int) -> None:
        """A plan is over, here."""
        self.closed = epoch
        self._diverted.clear()

    def reroute(self, stages: set[int]) -> None:
        """Senders that prefer receivers near them look which those are now."""
        program, site = self._worker.program, self._site
        before = dict(site.near)
        site.near.update(self._nearness.rows(site.placement))
        for task in self._worker.tasks:
            for number, outlet in task.outlets.items():
                edge = program.plan.edges[number]
                local = edge.grouping.kind == "local" and edge.dst_stage in stages
                if local or before.get(number) != site.near.get(number):
                    rule = router_of(program, site, edge, task.index)
                    if isinstance(rule, Detour):
                        rule.pending = outlet.pending  # what is under way comes back to it
                    outlet.switch(rule)
