"""Where tasks go.

The way of a decision through this folder, in reading order:

model, snapshot        tasks, traffic, nodes, assignments; what was measured
traffic                operator rates and groupings -> traffic between tasks
policy, registry       the interface and the names; then one file per policy:
round_robin, stromax, turbostream, metis, auto, by_operator, spread
partitioning           the algorithms that the policies are made of: split, refine, mend, settle
accounting, local      what an assignment costs: cut, balance, traffic by kind of link
files                  task graphs from topology files and from METIS graphs
command                ``tailrace place``
"""

from __future__ import annotations

from .errors import PlacementError, UnknownPolicyError
from .model import Assignment, Node, OperatorEdge, TaskEdge, TaskGraph, TaskVertex, parse_nodes
from .policy import PlacementPolicy
from .registry import POLICIES, by_name
from .snapshot import Snapshot, measured
from .traffic import OperatorProfile, expand, task_id

__all__ = [
    "POLICIES",
    "Assignment",
    "Node",
    "OperatorEdge",
    "OperatorProfile",
    "PlacementError",
    "PlacementPolicy",
    "Snapshot",
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
