"""Where the tuples of shared tasks wait: one worker of a node is the owner of the queue for all of the node's tasks.

Decided once by the coordinator, because every worker must find the same, also after a slot has come back on another
node. Pure; a group that lies across two machines by mistake works, only slower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .shared import shares

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tailrace.config import Policy, Settings
    from tailrace.topology.plan import Plan


def queue_owners(
    plan: Plan, policy: Policy, settings: Settings, placement: Sequence[Sequence[int]], hosts: Mapping[int, str]
) -> dict[int, list[int]]:
    """Per stage whose queues reach across workers, the slot at which each task's tuples wait."""
    if settings.share_across != "node":
        return {}
    found = {}
    for stage in plan.stages:
        slots = placement[stage.id]
        if not shares(stage, plan.inputs[stage.id], policy.inbox, policy.sharing):
            continue
        by_host: dict[str, list[int]] = {}
        for slot in sorted(set(slots)):
            by_host.setdefault(hosts[slot], []).append(slot)
        # Another worker for each stage, so that no one worker is the owner of all.
        owner = {host: members[stage.id % len(members)] for host, members in by_host.items()}
        where = [owner[hosts[slot]] for slot in slots]
        if where != list(slots):
            found[stage.id] = where
    return found
