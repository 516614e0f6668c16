"""Spread: even the load of workers out with as few moves as that takes; the baseline of rebalancing.

No paper's: tasks of workers that leave go to the least loaded one, heaviest first; then, as long as that lowers the
load of the most loaded worker, one of its tasks goes to the least loaded one; then workers that have nothing, as those
that have just joined, get a task of the most loaded one that can spare it. A worker's load is the sum of its tasks'
over its speed. Traffic is not looked at, so it loses to stromax and turbostream where bytes between nodes are what
costs; it wins where every move is a pause, because it leaves all else where it is. Pure; called by the coordinator.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

T = TypeVar("T", bound=Hashable)

#: A move must lower the load of the most loaded worker by at least this share.
GAIN_MIN = 0.05


def spread(
    place: Mapping[T, int], loads: Mapping[T, float], workers: Sequence[int], speeds: Mapping[int, float] | None = None
) -> dict[T, int]:
    """Give a worker for every task; those that need not move stay. ``speeds`` of 1 where nothing else is known."""
    speed = {worker: (speeds or {}).get(worker, 1.0) for worker in workers}
    found = dict(place)
    used = dict.fromkeys(workers, 0.0)
    for task, worker in place.items():
        if worker in used:
            used[worker] += loads[task] / speed[worker]
    unplaced = [task for task, worker in place.items() if worker not in used]
    for task in sorted(unplaced, key=lambda each: -loads[each]):
        found[task] = best = min(workers, key=lambda worker: used[worker] + loads[task] / speed[worker])
        used[best] += loads[task] / speed[best]
    for _ in range(len(place)):
        if not _shift(found, used, loads, speed):
            break
    return found


def _shift(found: dict[T, int], used: dict[int, float], loads: Mapping[T, float], speed: Mapping[int, float]) -> bool:
    """Move a task off the most loaded worker, or off the next one that can fill an empty one; false if none can."""
    for rank, worker in enumerate(sorted(used, key=lambda each: -used[each])):
        targets = [each for each, load in used.items() if each != worker and (not rank or not load)]
        best = _best_move(worker, targets, found, used, loads, speed)
        if best is not None:
            task, target = best
            found[task] = target
            used[worker] -= loads[task] / speed[worker]
            used[target] += loads[task] / speed[target]
            return True
    return False


def _best_move(
    worker: int,
    targets: Sequence[int],
    found: Mapping[T, int],
    used: Mapping[int, float],
    loads: Mapping[T, float],
    speed: Mapping[int, float],
) -> tuple[T, int] | None:
    """The move off a worker that leaves it and the target most even, of the lightest task, if one gains enough."""
    best_after, best = (used[worker] * (1 - GAIN_MIN), 0.0), None
    for task, at in found.items():
        if at != worker or not loads[task]:
            continue
        for target in targets:
            after = max(used[worker] - loads[task] / speed[worker], used[target] + loads[task] / speed[target])
            if (after, loads[task]) < best_after:
                best_after, best = (after, loads[task]), (task, target)
    return best
