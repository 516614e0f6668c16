"""Which edges of a program keep their tuples near, and with which shares: the plan, seen as ``routing.near`` sees it.

Workers build their rules from it, again whenever tasks have moved. Edges by root, and those that lead to them, go by
*origins*, where tasks were placed first: these stay what they are when a task moves or its worker is started elsewhere,
because the two incarnations of a root have to meet at one task whenever they come. All others go by where tasks are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.routing import near_rule
from tailrace.routing.near import NearEdge, following, near_rows, places_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tailrace.program.program import Program
    from tailrace.protocol import Peer
    from tailrace.routing.near import Place, Row


class Nearness:
    """The shares of a program's edges; ``peers`` is kept up to date by whoever made this."""

    def __init__(self, program: Program, origins: Sequence[Sequence[Place]], peers: Mapping[int, Peer]) -> None:
        self._program = program
        self._peers = peers
        self._edges = near_edges(program) if program.policy.locality != "off" and origins else []
        self._at_first = self._rows(origins)
        self._following = following(self._edges, self._at_first)

    def _rows(self, places: Sequence[Sequence[Place]]) -> dict[int, list[Row]]:
        policy, settings = self._program.policy, self._program.settings
        return near_rows(places, self._edges, policy.locality, settings.local_skew_max) if self._edges else {}

    def rows(self, placement: Sequence[Sequence[int]]) -> dict[int, list[Row]]:
        """Per edge that keeps near, the row of each sending task; none where locality is off."""
        if not self._following:
            return dict(self._at_first)
        now = self._rows(places_of(placement, {slot: peer.node_name for slot, peer in self._peers.items()}))
        return self._at_first | {edge: now[edge] for edge in self._following}


def near_edges(program: Program) -> list[NearEdge]:
    """All edges of the plan with their rules."""
    plan, policy = program.plan, program.policy
    return [
        NearEdge(
            edge.id,
            edge.src_stage,
            edge.dst_stage,
            near_rule(
                edge,
                plan.stages[edge.dst_stage],
                tracked=policy.tracked,
                balanced=program.balances,
                adaptive=policy.replay == "adaptive",
            ),
            pooled=policy.inbox != "per_task",
        )
        for edge in plan.edges
    ]
