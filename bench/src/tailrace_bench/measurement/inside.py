"""What a bench must know of a running query that its user need not: its processes and its placement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.coordinator.query import Query


def worker_pids(query: Query) -> list[int]:
    """The processes of the workers."""
    return list(query.worker_pids.values())


def crossing_share(progress: Mapping[str, Any], src: str, dst: str) -> float:
    """Share of the tuples between two operators that went from one worker to another, by a progress report."""
    worker_of = {(name, task["task"]): task["worker"] for task in progress["tasks"] for name in task["operators"]}
    crossing = total = 0
    for edge in progress["edges"]:
        sender, receiver = _end(edge["from"]), _end(edge["to"])
        if (sender[0], receiver[0]) == (src, dst):
            total += edge["tuples"]
            crossing += edge["tuples"] * (worker_of[sender] != worker_of[receiver])
    return crossing / max(1, total)


def _end(text: str) -> tuple[str, int]:
    """Take ``name[3]`` apart; ``others`` has no task."""
    name, _, index = text.rpartition("[")
    return (name, int(index.rstrip("]"))) if name else (text, -1)
