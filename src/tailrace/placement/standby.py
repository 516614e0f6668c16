"""Which worker stands by for which: it holds the state of the other's tasks, and goes on with them when that is lost.

Called by the coordinator whenever who takes part has changed, and by nobody else. Pure.

A standby is on another executor where there is one, because an executor takes its workers along, and on another node
before the same one; of those that are equal in this the one that would have the fewest tasks. When it loses: workers
that differ in speed, or whose tasks do; all tasks of a worker go to one other, which then has twice as much to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class WorkerPlace(NamedTuple):
    """Where a worker is, and how many tasks it has."""

    executor: str
    node: str
    tasks: int


def choose_standbys(places: Mapping[int, WorkerPlace], before: Mapping[int, int]) -> dict[int, int]:
    """Give each worker with tasks the one that stands by for it; none where there is no other.

    One that did so ``before`` stays, unless another is further away: what it holds would have to be read again.
    """
    held = {slot: place.tasks for slot, place in places.items()}
    chosen: dict[int, int] = {}
    for ward in sorted(places, key=lambda slot: (-places[slot].tasks, slot)):
        others = [slot for slot in sorted(places) if slot != ward]
        if not places[ward].tasks or not others:
            continue
        own = places[ward]
        standby = min(
            others,
            key=lambda slot: (
                places[slot].executor == own.executor,
                places[slot].node == own.node,
                before.get(ward) != slot,
                held[slot],
                slot,
            ),
        )
        chosen[ward] = standby
        held[standby] += own.tasks
    return chosen
