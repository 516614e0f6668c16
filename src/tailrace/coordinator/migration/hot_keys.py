"""Which key groups should leave an overloaded task, so that a hot key is left alone with what it brings.

A key cannot be divided, but the others of its task can go. Where the server of a task (its thread, or the loop of its
worker, with all else that runs there) is used more than the mean of its stage's servers by 12 % (StroMAX's threshold),
its groups go to the least used servers, heaviest first, as long as the target stays below what is left here. A group
that is heavier than all others of its server together is a hot one and never goes; all others leave it then, those too
that were not seen yet. A task that gives takes nothing in the same plan. Loads of groups are their shares of the
stage's input, so what backpressure takes from all alike changes nothing.

When it loses: against many middling keys hashed badly it needs several looks, and where a single key is more than a
task can do it only frees the others. Pure: measurements in, moves out; called by ``rebalancing``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

#: Over the mean by so much is overloaded.
THETA = 0.12


@dataclass(frozen=True)
class StageLoad:
    """A keyed stage as it was measured."""

    #: What each group brings, in seconds of work per second, and the task that has it.
    groups: Mapping[int, float]
    task_of: Sequence[int]
    #: The server of each task, and what else each server has to do.
    server_of: Sequence[Hashable]
    besides: Mapping[Hashable, float]

    def used(self, moves: Mapping[int, int] | None = None) -> dict[Hashable, float]:
        """How much each server is used, after some moves."""
        found = {server: self.besides.get(server, 0.0) for server in self.server_of}
        for group, load in self.groups.items():
            task = (moves or {}).get(group, self.task_of[group])
            found[self.server_of[task]] += load
        return found


def overloaded(stage: StageLoad) -> list[Hashable]:
    """The servers that are used too much, most used first."""
    used = stage.used()
    limit = (1.0 + THETA) * sum(used.values()) / len(used)
    return sorted((server for server in used if used[server] > limit), key=lambda server: -used[server])


def relieve(stage: StageLoad) -> dict[int, int]:
    """The groups that should go, each with its new task."""
    used = stage.used()
    full = overloaded(stage)
    takers = [task for task, server in enumerate(stage.server_of) if server not in full]
    if not takers:
        return {}
    mean = sum(used.values()) / len(used)
    moves: dict[int, int] = {}
    given = dict.fromkeys(takers, 0)
    for server in full:
        for group in _leaving(stage, server):
            load = stage.groups.get(group, 0.0)
            target = min(takers, key=lambda task: (used[stage.server_of[task]], given[task], task))
            to = stage.server_of[target]
            if used[server] > mean and used[to] + load < used[server]:
                moves[group] = target
                given[target] += 1
                used[server] -= load
                used[to] += load
    return moves


def _leaving(stage: StageLoad, server: Hashable) -> list[int]:
    """The groups of a server that may go, heaviest first: those that were seen, or, beside a hot one, all others."""
    here = [group for group, task in enumerate(stage.task_of) if stage.server_of[task] == server]
    here.sort(key=lambda group: (-stage.groups.get(group, 0.0), group))
    loads = [stage.groups.get(group, 0.0) for group in here]
    if loads and loads[0] > sum(loads[1:]):
        return here[1:]
    return [group for group in here if stage.groups.get(group)]
