"""Applies the coordinator's choice of policies to a worker's tasks while they run: rules, replays, inboxes.

``PolicySwitchParticipant`` is this worker's part in the operation, which is over at once; ``PresentPolicy`` is what it
leaves behind. Workers need not switch at the same moment: a rule decides for tuples not yet sent, credits mean the
same under every rule, and what waits in an inbox stays there in its order. Nothing is sent, dropped or acknowledged
here, so nothing can be lost or doubled by it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace import protocol
from tailrace.receiving.shared import shares
from tailrace.routing import free_rule, is_free
from tailrace.worker.exchange.sharing import share, unshare
from tailrace.worker.operations.participant import Participant

if TYPE_CHECKING:
    from tailrace.config import Policy
    from tailrace.worker.exchange.delivery import Delivery
    from tailrace.worker.execution.replay_timer import ReplayTimer
    from tailrace.worker.operations.participant import Order
    from tailrace.worker.worker_state import WorkerState


class PolicySwitchParticipant(Participant):
    """Another choice of policies: ``begun``, then ``over``."""

    def on_order(self, order: Order) -> None:
        """Go by the choice, and say so."""
        if isinstance(order, protocol.Switch):
            self.scope.policies.apply(order)
            self.tell(protocol.Switched(self.epoch))
        self.state = "over"

    def undo(self) -> None:
        """A choice that is told is decided; the next one changes it."""


class PresentPolicy:
    """The present choice at one worker."""

    def __init__(self, worker: WorkerState, delivery: Delivery, late: ReplayTimer) -> None:
        self._worker = worker
        self._delivery = delivery
        self._late = late
        self._switched = worker.program.switched
        self._epoch = 0
        self.policy: Policy = worker.program.policy

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
        plan = self._worker.program.plan
        for task in self._worker.tasks:
            for number, outlet in task.outlets.items():
                edge = plan.edges[number]
                target = plan.stages[edge.dst_stage]
                local = [box.task for box in outlet.boxes if box.slot == self._worker.slot]
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
        plan = self._worker.program.plan
        for stage in plan.stages:
            if shares(stage, plan.inputs[stage.id], self.policy.inbox, self.policy.sharing):
                share(self._worker, stage.id, self._delivery)
            else:
                unshare(self._worker, stage.id)
