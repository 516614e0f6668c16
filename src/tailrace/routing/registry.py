"""Picks the rule of an edge from its grouping, the policy and what stands at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .by_root import ByRoot
from .fields import Fields
from .fixed import All, Custom, Direct
from .shuffle import Shuffle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.config import Settings
    from tailrace.topology.plan import Stage, StageEdge

    from .base import Router


def router_for(
    edge: StageEdge, target: Stage, *, sender: int, local: Sequence[int], tracked: bool, settings: Settings
) -> Router:
    """Make the rule for one sending task; ``local`` are the target's tasks in the sender's own worker."""
    kind, fn, tasks = edge.grouping.kind, edge.grouping.fn, target.tasks
    name = f"{edge.src} -> {target.head.name}"
    if kind == "fields":
        return Fields(None if target.head.verb == "count" else fn, tasks, settings.key_groups)
    if kind == "all":
        return All(tasks)
    if kind == "global":
        return Shuffle([0])
    if kind == "direct":
        return Direct(name, tasks)
    if kind == "custom" and fn is not None:
        return Custom(name, fn, tasks)
    if tracked and target.guarded:
        return ByRoot(tasks)
    return Shuffle(local if local and kind == "local" else range(tasks), sender)
