"""Applies the coordinator's choice of policies to a worker's tasks while they run: rules, replays, inboxes.

Part of the brain, called with every ``Switch``. Workers need not switch at the same moment: a rule decides for tuples
not yet sent, credits mean the same under every rule, and what waits in an inbox stays there in its order. Nothing is
sent, dropped or acknowledged here, so nothing can be lost or doubled by it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace.receiving.inbox import Inbox
from tailrace.receiving.shared import shares
from tailrace.routing import free_rule, is_free

from .build import share

if TYPE_CHECKING:
    from tailrace import protocol
    from tailrace.batch import Batch
    from tailrace.config import Policy
    from tailrace.receiving.inbox import Channel

    from .delivery import Delivery
    from .floor import Floor
    from .late import LateRoots
    from .task import Task


class Switching:
    """The present choice at one worker."""

    def __init__(self, floor: Floor, delivery: Delivery, late: LateRoots) -> None:
        self._floor = floor
        self._delivery = delivery
        self._late = late
        self._switched = floor.program.switched
        self._epoch = 0
        self.policy: Policy = floor.program.policy

    def apply(self, message: protocol.Switch) -> None:
        """Go by another choice from now on, unless a later one is known."""
        if message.epoch <= self._epoch:
            return
        self._epoch = message.epoch
        before = self.policy
        self.policy = replace(before, **{step: getattr(message, step) for step in self._switched})
        if (before.routing, before.replay) != (self.policy.routing, self.policy.replay):
            self._switch_rules()
            self._delivery.pace_credits(self.policy)
        if "replay" in self._switched:
            self._late.press(on=self.policy.replay == "adaptive")
        if before.inbox != self.policy.inbox:
            self._switch_inboxes()

    def refresh(self) -> None:
        """Tasks have come from other workers: they go by the present choice too."""
        if self._epoch:
            self._switch_rules()
            if "replay" in self._switched:
                self._late.press(on=self.policy.replay == "adaptive")

    def _switch_rules(self) -> None:
        """Give every free edge its new rule, which takes over what is under way."""
        plan = self._floor.program.plan
        for task in self._floor.tasks:
            for number, outlet in task.outlets.items():
                edge = plan.edges[number]
                target = plan.stages[edge.dst_stage]
                local = [box.task for box in outlet.boxes if box.slot == self._floor.slot]
                if not is_free(edge, target, local=local, tracked=True):
                    continue
                rule = free_rule(
                    self.policy.routing,
                    target.tasks,
                    task.index,
                    plan.stages[edge.src_stage].tasks,
                    adaptive=self.policy.replay == "adaptive",
                    switched=True,
                    pending=outlet.pending,
                )
                outlet.switch(rule)

    def _switch_inboxes(self) -> None:
        plan = self._floor.program.plan
        for stage in plan.stages:
            mates = [task for task in self._floor.tasks if task.stage.id == stage.id]
            # One that has seen the end of its input takes no more, neither from its own inbox nor from another's.
            if len(mates) < 2 or any(task.closing for task in mates):  # noqa: PLR2004 - it takes two to share
                continue
            wanted = shares(stage, plan.inputs[stage.id], self.policy.inbox, self.policy.sharing)
            if wanted and not mates[0].mates:
                pool(mates)
            elif not wanted and mates[0].mates:
                part(mates, {number: task for number, (task, _) in self._floor.inbound.items()})
            for task in mates:
                self._floor.enqueue(task)


def pool(mates: list[Task]) -> None:
    """Let tasks take from one inbox, oldest first."""
    waiting = [item for task in mates if task.inbox is not None for item in task.inbox.waiting]
    share(mates)
    _refill(mates[0].inbox, sorted(waiting, key=lambda item: item[2]))


def part(mates: list[Task], owner_of: dict[int, Task]) -> None:
    """Give every task its own inbox again, with what was sent to it."""
    shared = mates[0].inbox
    if shared is None:
        return
    for task in mates:
        task.mates = []
        task.inbox = Inbox({number: each for number, each in shared.channels.items() if owner_of[number] is task})
        _refill(task.inbox, [item for item in shared.waiting if owner_of[item[0].id] is task])


def _refill(inbox: Inbox | None, waiting: list[tuple[Channel, Batch, int]]) -> None:
    """Put batches into a new inbox that were received already."""
    if inbox is not None:
        inbox.waiting.extend(waiting)
        inbox.tuples = inbox.tuples_most = sum(len(batch.values) for _, batch, _ in waiting)
