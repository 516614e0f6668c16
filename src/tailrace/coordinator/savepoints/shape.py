"""What of a topology its checkpoints hang on, as the rows of a manifest: operators, tasks, ways between stages. Pure.

Used where manifests are made, and where it is seen whether one fits a query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.checkpoint.manifest import OperatorRow
from tailrace.topology.operators import holds_state

if TYPE_CHECKING:
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
