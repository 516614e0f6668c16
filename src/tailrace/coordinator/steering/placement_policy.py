"""Asks a placement policy, and names it where it raises: the one door through which the coordinator calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.coordinator.errors import PolicyError
from tailrace.errors import TailraceError
from tailrace.placement import by_name
from tailrace.program.errors import user_stack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.placement.model import Assignment, Node, TaskGraph
    from tailrace.placement.snapshot import Snapshot


def placed_by(
    policy: str, graph: TaskGraph, nodes: Sequence[Node], snapshot: Snapshot | None, **options: Any
) -> Assignment:
    """Let a policy place the tasks of a graph; what it raises ends the query under the policy's name."""
    try:
        return by_name(policy, **options).place(graph, nodes, snapshot)
    except TailraceError:
        raise
    except (Exception, SystemExit) as error:
        raise PolicyError(
            f"Placement policy {policy!r} was to place {len(graph.vertices)} tasks on {len(nodes)} nodes and raised "
            f"{type(error).__name__}: {error}.",
            f"Choose another with Policy(placement=...), or mend this one.\n{user_stack(error)}",
        ) from error
