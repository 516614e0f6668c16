"""Which edges of a program keep their tuples near, and with which shares: the plan, seen as ``routing.near`` sees it.

Workers build their rules from it, the coordinator predicts traffic with it. Homes are where tasks were placed first:
they stay what they are when a task moves or its worker is started elsewhere, because the two incarnations of a root
have to meet at one task whenever they come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.routing import near_rule
from tailrace.routing.near import NearEdge, near_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tailrace.routing.near import Place, Row

    from .build import Program


def near_of(program: Program, homes: Sequence[Sequence[Place]]) -> dict[int, list[Row]]:
    """Per edge that keeps near, the row of each sending task; none where locality is off."""
    if program.policy.locality == "off" or not homes:
        return {}
    return near_rows(homes, near_edges(program), program.policy.locality, program.settings.local_skew_max)


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


def homes_of(placement: Sequence[Sequence[int]], hosts: Mapping[int, str]) -> list[list[tuple[int, int]]]:
    """Node number and slot of every task; nodes are numbered by their names."""
    number = {host: at for at, host in enumerate(sorted(set(hosts.values())))}
    return [[(number[hosts[slot]], slot) for slot in stage] for stage in placement]
