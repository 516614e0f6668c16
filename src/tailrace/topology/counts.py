"""How many tasks each operator gets when the user did not say. Pure; used by rendering and validation."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .graph import Topology
    from .operators import EdgeSpec


def known_edges(topology: Topology) -> list[EdgeSpec]:
    """List the edges between operators that exist; a topology made by hand may have others."""
    known = topology.operators
    return [edge for edge in topology.edges if edge.src in known and edge.dst in known]


def upstream_first(topology: Topology) -> list[str]:
    """Order the operators so that each comes after all that feed it; those on or behind a cycle are left out."""
    waiting = dict.fromkeys(topology.operators, 0)
    readers: dict[str, list[str]] = {name: [] for name in topology.operators}
    for edge in known_edges(topology):
        waiting[edge.dst] += 1
        readers[edge.src].append(edge.dst)
    ordered = [name for name, count in waiting.items() if count == 0]
    for name in ordered:  # grows while it is walked
        for reader in readers[name]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ordered.append(reader)
    return ordered


def task_counts(topology: Topology) -> dict[str, int]:
    """Fill in the task counts: as given, else the largest of those upstream; one for sources."""
    counts: dict[str, int] = {}
    edges = known_edges(topology)
    for name in upstream_first(topology):
        given = topology.operators[name].tasks
        upstream = [counts[edge.src] for edge in edges if edge.dst == name]
        counts[name] = given if given is not None else max(upstream, default=1)
    return counts
