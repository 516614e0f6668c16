"""Spread: even the load of workers out with as few moves as that takes; the baseline of rebalancing.

No paper's: tasks of workers that leave go to the least loaded one, heaviest first; then, as long as that lowers the
load of the most loaded worker, one of its tasks goes to the least loaded one. A worker's load is the sum of its tasks'
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
    homeless = [task for task, worker in place.items() if worker not in used]
    for task in sorted(homeless, key=lambda each: -loads[each]):
        found[task] = best = min(workers, key=lambda worker: used[worker] + loads[task] / speed[worker])
        used[best] += loads[task] / speed[best]
    for _ in range(len(place)):
        if not _shift(found, used, loads, speed):
            break
    return found


def _shift(found: dict[T, int], used: dict[int, float], loads: Mapping[T, float], speed: Mapping[int, float]) -> bool:
    """Move one task off the most loaded worker, the one that leaves the two workers most even; false if none does."""
    worst = max(used, key=lambda worker: used[worker])
    best_after, best = used[worst] * (1 - GAIN_MIN), None
    for task, worker in found.items():
        if worker != worst or not loads[task]:
            continue
        for target, load in used.items():
            after = max(used[worst] - loads[task] / speed[worst], load + loads[task] / speed[target])
            if target != worst and after < best_after:
                best_after, best = after, (task, target)
    if best is None:
        return False
    task, target = best
    found[task] = target
    used[worst] -= loads[task] / speed[worst]
    used[target] += loads[task] / speed[target]
    return True
