"""Who stands by for whom, as the coordinator of a query with ``standby=1`` keeps it.

After each durable epoch every standby is told which objects the tasks of its ward are put together from (``Follow``)
and says when it has them (``Followed``). Tasks that went on at a standby are *displaced*: once the successor of the
worker they were lost with holds them as of the last epoch it gets them back. Owned by ``recovery``; pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace import protocol
from tailrace.placement.standby import WorkerPlace, choose_standbys

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.coordinator.brain import CoordinatorBrain

TaskId = tuple[int, int]


class Standbys:
    """The standbys of one query."""

    def __init__(self, brain: CoordinatorBrain) -> None:
        self._brain = brain
        #: Per worker with tasks the one that stands by for it.
        self.of: dict[int, int] = {}
        #: Tasks that went on at a standby: the worker that they were lost with.
        self.displaced: dict[TaskId, int] = {}
        #: Per worker the newest epoch as of which it holds what it was told to.
        self.reached: dict[int, int] = {}
        #: The newest epoch that standbys were told of, and the one before.
        self._told = 0
        self._told_before = 0

    def follow(self) -> None:
        """An epoch is durable, or everyone is open again: tell each standby what to hold now."""
        brain, checkpoints = self._brain, self._brain.checkpoints
        durable = None if checkpoints is None else checkpoints.durable
        if checkpoints is None or durable is None or brain.state != "running":
            return
        places = {
            slot: WorkerPlace(
                member.register.executor, member.peer.node_name, sum(row.count(slot) for row in brain.placement)
            )
            for slot, member in brain.members.items()
            if member.open
        }
        self.of = choose_standbys(places, self.of)
        if durable.epoch != self._told:
            self._told_before, self._told = self._told, durable.epoch
        stages = {stage.head.name: stage.id for stage in brain.program.plan.stages}
        tasks: dict[int, list[tuple[int, int, list[str]]]] = {}
        for row in durable.tasks:
            ident = (stages[row.operator], row.task)
            at = brain.placement[ident[0]][ident[1]]
            for slot in {self.of.get(at), self.displaced.get(ident)} - {at, None}:
                if slot in places:
                    tasks.setdefault(slot, []).append((*ident, list(row.objects)))
        for slot in places:
            held = tasks.get(slot, [])
            brain.tell(brain.members[slot], protocol.Follow(durable.epoch, held, checkpoints.chains.stand_for(held)))

    def can_replace(self, slots: Iterable[int]) -> bool:
        """Whether a living worker stands by for each of these that has tasks."""
        members = self._brain.members
        wards = {slot for slot in slots if any(slot in row for row in self._brain.placement)}
        return all(slot in self.of and self.of[slot] in members and members[self.of[slot]].alive for slot in wards)

    def replace(self, slots: Iterable[int]) -> None:
        """Place the tasks of lost workers at their standbys."""
        for slot in slots:
            for stage, row in enumerate(self._brain.placement):
                for task in [task for task, at in enumerate(row) if at == slot]:
                    row[task] = self.of[slot]
                    self.displaced.setdefault((stage, task), slot)
            self.of.pop(slot, None)

    def returning(self, *, now_or_never: bool) -> dict[TaskId, int]:
        """Tasks that can go back: their worker is open and holds them as of the last durable epoch.

        Where epochs follow one another without a pause that moment does not come: then the epoch before will do, and
        what was written since is read from the store.
        """
        brain, least = self._brain, self._told_before if now_or_never else self._told
        return {
            ident: before
            for ident, before in self.displaced.items()
            if before in brain.members and brain.members[before].open and self.reached.get(before, -1) >= max(1, least)
        }

    def give_back(self, tasks: dict[TaskId, int]) -> None:
        """Place tasks where they were before their worker was lost."""
        for (stage, task), before in tasks.items():
            self._brain.placement[stage][task] = before
            del self.displaced[stage, task]
