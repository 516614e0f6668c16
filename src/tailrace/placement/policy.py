"""The interface of every placement policy: a pure function from a task graph and nodes to an assignment.

The runtime, the rebalancing loop, the command line and the benches call it; a policy reads no clock, draws randomness
only from a seed it was built with, and touches nothing but its arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .model import Assignment, Node, TaskGraph
    from .snapshot import Snapshot


class PlacementPolicy(Protocol):
    """Decides where tasks go. Without a snapshot nothing has run yet, and the graph's declared weights count."""

    def place(self, graph: TaskGraph, nodes: Sequence[Node], snapshot: Snapshot | None = None) -> Assignment:
        """Place every task of ``graph`` exactly once on ``nodes``."""
        ...
