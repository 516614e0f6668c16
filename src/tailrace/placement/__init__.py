"""Where tasks go.

The way of a decision through this folder, in reading order:

model, snapshot        tasks, traffic, nodes, assignments; what was measured
traffic                operator rates and groupings -> traffic between tasks
policy, registry       the interface and the names; then one file per policy:
round_robin, stromax, turbostream, metis, auto
accounting             what an assignment costs: cut, balance, traffic by kind of link
cli                    ``tailrace place``
"""

from __future__ import annotations

from .errors import PlacementError, UnknownPolicyError
from .model import Assignment, Node, Stream, TaskEdge, TaskGraph, TaskVertex, parse_nodes
from .policy import PlacementPolicy
from .registry import POLICIES, by_name
from .snapshot import Snapshot, measured
from .traffic import Operator, expand, task_id

__all__ = [
    "POLICIES",
    "Assignment",
    "Node",
    "Operator",
    "PlacementError",
    "PlacementPolicy",
    "Snapshot",
    "Stream",
    "TaskEdge",
    "TaskGraph",
    "TaskVertex",
    "UnknownPolicyError",
    "by_name",
    "expand",
    "measured",
    "parse_nodes",
    "task_id",
]
