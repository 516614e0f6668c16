"""What of a topology its checkpoints hang on, as the rows of a manifest: operators, tasks, ways between stages. Pure.

Used where manifests are made, and where it is seen whether one fits a query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.checkpoint.manifest import OperatorRow
from tailrace.config import TWO_CHOICES
from tailrace.topology.operators import holds_state

if TYPE_CHECKING:
    from tailrace.program.program import Program
    from tailrace.topology.plan import Plan


def operator_rows(plan: Plan) -> tuple[OperatorRow, ...]:
    """The operators, stage by stage."""
    return tuple(
        OperatorRow(spec.name, spec.verb, stage.tasks, holds_state(spec))
        for stage in plan.stages
        for spec in stage.operators
    )


def edge_rows(plan: Plan) -> tuple[tuple[str, str, str, str], ...]:
    """The ways between stages: a bundle is named by the way it went, so that others would name it otherwise."""
    return tuple(
        (edge.src, edge.port, plan.stages[edge.dst_stage].head.name, edge.grouping.kind) for edge in plan.edges
    )


def route_rows(program: Program) -> dict[str, str]:
    """What of the policy the names of bundles and the ways of roots hang on, in words.

    Plain round robin deals a bundle's values out one by one; all other rules, and it too where it may be switched,
    keep a bundle together. Where streams keep near, all that ``routing.near`` looks at counts.
    """
    policy, settings = program.policy, program.settings
    whole = bool(program.switched) or policy.routing not in {"even", *TWO_CHOICES}
    routes = {
        "bundles of shuffled streams": "whole" if whole or policy.locality != "off" else "dealt out",
        "routing by key": policy.routing if policy.routing in TWO_CHOICES else "one task",
        "locality": policy.locality,
    }
    if policy.locality != "off":
        routes["local_skew_max"] = str(settings.local_skew_max)
        routes["balanced"] = "yes" if program.balances else "no"
        routes["replay"] = "adaptive" if policy.replay == "adaptive" else "fixed"
        routes["inbox"] = "per_task" if policy.inbox == "per_task" else "shared"
    return routes
