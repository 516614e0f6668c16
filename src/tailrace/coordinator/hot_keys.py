"""Which key groups should leave an overloaded task, so that a hot key is left alone with what it brings.

A key cannot be divided, but the others of its task can go. Where the server of a task (its thread, or the loop of its
worker, with all else that runs there) is used more than the mean of its stage's servers by 12 % (StroMAX's threshold),
its groups go to the least used servers, heaviest first, as long as the target stays below what is left here; the group
that is heavier than all others together is the hot one and never goes. A task that gives takes nothing in the same
plan. Loads of groups are their shares of the stage's input, so what backpressure takes from all alike changes nothing.

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
    for server in full:
        here = [group for group in stage.groups if stage.server_of[stage.task_of[group]] == server]
        here.sort(key=lambda group: (-stage.groups[group], group))
        if here and stage.groups[here[0]] > sum(stage.groups[group] for group in here[1:]):
            here = here[1:]  # the hot one: it would only take its trouble elsewhere
        for group in here:
            load = stage.groups[group]
            target = min(takers, key=lambda task: (used[stage.server_of[task]], task))
            to = stage.server_of[target]
            if used[server] <= mean or used[to] + load >= used[server] or not load:
                continue
            moves[group] = target
            used[server] -= load
            used[to] += load
    return moves
