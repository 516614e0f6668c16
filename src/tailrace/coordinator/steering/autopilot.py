"""Feeds ``AutoPolicy`` from live progress and turns its choice into a ``Switch`` for all workers.

Called by the coordinator's brain after each progress report of a query some of whose steps are left to it
(``Policy.auto()``). Only operators count that shuffle feeds and that have several tasks: for others there is nothing to
balance, to share or to go around. Pure: what it learns is in the report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.config import SWITCHED_STEPS
from tailrace.coordinator.steering.auto import TECHNIQUES, AutoPolicy, TaskLoad
from tailrace.errors import ConfigError, nearest
from tailrace.protocol import Switch
from tailrace.receiving.shared import may_share
from tailrace.routing import is_free

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.program.program import Program
    from tailrace.topology.plan import Plan

Row = dict[str, Any]


class Autopilot:
    """The choice of policies of one query."""

    def __init__(self, program: Program) -> None:
        plan, policy = program.plan, program.policy
        self.switched = program.switched
        self._at_first = policy
        self._balanced = _free_operators(plan) if self.switched else frozenset()
        self._shareable = {
            stage.head.name: stage.tasks > 1 and may_share(stage, plan.inputs[stage.id]) for stage in plan.stages
        }
        usable = (name for name, steps in TECHNIQUES.items() if steps.keys() <= self.switched and self._balanced)
        self.policy = AutoPolicy(techniques=frozenset(usable))
        #: What should hold, under the epoch in which workers were last told of a choice; 0 while they were of none.
        self.present = Switch(0, policy.routing, policy.inbox, policy.replay)
        #: Whether a user has taken the choice over.
        self.held = False

    def consider(self, progress: Row, seconds: float) -> Switch | None:
        """Take in a progress report of so many seconds; gives what workers should be told, if it has changed."""
        if self.held or not self.policy.techniques:
            return None
        before = self.policy.choice.technique
        busiest = max((node["busy"] for node in progress["nodes"].values()), default=0.0)
        choice = self.policy.observe(self._loads(progress, seconds), busiest, self._shareable)
        return None if choice.technique == before else self._switch(self._chosen())

    def _chosen(self) -> dict[str, str]:
        return TECHNIQUES.get(self.policy.choice.technique, {})

    def _switch(self, changed: Mapping[str, str]) -> Switch:
        """From here on the policies of the start, but for what has changed."""
        steps = {step: changed.get(step, getattr(self._at_first, step)) for step in SWITCHED_STEPS}
        self.present = Switch(self.present.epoch, **steps)
        return self.present

    def check(self, steps: Mapping[str, str]) -> None:
        """Refuse what cannot be switched."""
        for step, value in steps.items():
            if step not in self.switched:
                raise ConfigError(
                    f"Only steps that were left to the coordinator can be switched: "
                    f"{', '.join(sorted(self.switched)) or 'none here'}; found {step!r}.",
                    f"Start the query with Policy({step}='auto'), or with Policy.auto().",
                )
            if value not in SWITCHED_STEPS[step]:
                raise ConfigError(
                    f"While a query runs, {step} must be one of {', '.join(SWITCHED_STEPS[step])}; found {value!r}.",
                    nearest(value, SWITCHED_STEPS[step]),
                )

    def hold(self, steps: Mapping[str, str]) -> Switch:
        """Let a user choose: these steps as given, the others that are left to the coordinator as at the start.

        No steps at all give the choice back to the coordinator, which goes on from where it was.
        """
        self.held = bool(steps)
        return self._switch(steps or self._chosen())

    def _loads(self, progress: Row, seconds: float) -> list[TaskLoad]:
        loads = []
        for row in progress["tasks"]:
            if row["operators"][0] in self._balanced:
                tuples = round(row["inPerSecond"] * seconds)
                service_us = row["service_us"] if tuples else None
                loads.append(TaskLoad(row["operators"][0], row["worker"], service_us, row["utilisation"], tuples))
        return loads

    def row(self) -> Row:
        """What ``lastProgress`` shows; nothing where no step is left to the coordinator."""
        if not self.switched:
            return {}
        return {
            "technique": "held" if self.held else self.policy.choice.technique,
            "why": self._why,
            "switches": self.policy.switches,
            **{step: getattr(self.present, step) for step in sorted(self.switched)},
        }

    @property
    def _why(self) -> str:
        if not self._balanced:
            return "No operator of several tasks is fed by shuffle: there is nothing to choose."
        return "Held by query.switch()." if self.held else self.policy.choice.reason


def _free_operators(plan: Plan) -> frozenset[str]:
    """The operators any of whose tasks may take any tuple of some edge."""
    targets = (plan.stages[edge.dst_stage] for edge in plan.edges if _leads_freely(plan, edge.id))
    return frozenset(stage.head.name for stage in targets)


def _leads_freely(plan: Plan, edge: int) -> bool:
    return is_free(plan.edges[edge], plan.stages[plan.edges[edge].dst_stage], local=(), tracked=True)
