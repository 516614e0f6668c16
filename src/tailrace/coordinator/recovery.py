"""What follows from the loss of a worker where a query has checkpoints: everyone begins again as of the last epoch.

Owned by the coordinator's brain, and pure like it. Living workers are deployed again too, and go back by what they kept
in memory. Where a standby lives for each lost worker it goes on with the tasks at once, and they go back later by the
same way; else all wait for the lost worker's successor, work on in vain, and nothing they say counts. Decision 037.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tailrace.coordinator.standbys import Standbys
from tailrace.receiving.queue_owners import queue_owners

if TYPE_CHECKING:
    from tailrace.coordinator.brain import CoordinatorBrain

_NS_PER_MS = 1_000_000
#: Recoveries that are told of.
_TOLD_MAX = 16


@dataclass
class Recovered:
    """One recovery: why, when, and how its tasks went on."""

    why: str
    begun_ns: int
    #: The epoch that everyone went back to, and how long it took until all were open; -1 while it lasts.
    epoch: int = 0
    took_ms: float = -1.0
    #: Tasks by where their state came from.
    restored: Counter[str] = field(default_factory=Counter)

    def row(self) -> dict[str, Any]:
        """Show it."""
        return {"why": self.why, "epoch": self.epoch, "took_ms": round(self.took_ms, 3), "restored": {**self.restored}}


class Recovery:
    """The recoveries of one query."""

    def __init__(self, brain: CoordinatorBrain, standby: int) -> None:
        self._brain = brain
        self.standbys = Standbys(brain) if standby else None
        #: Workers lost, and times that displaced tasks went back.
        self.count = 0
        self.returns = 0
        #: The newest, oldest first.
        self.told: deque[Recovered] = deque(maxlen=_TOLD_MAX)

    def begin(self, slot: int, now_ns: int) -> None:
        """A worker is lost: give up what is under way."""
        if self._brain.checkpoints is None:
            return
        self.count += 1
        self._give_up(f"worker {slot} was lost", now_ns)
        self.go_on(now_ns)

    def _give_up(self, why: str, now_ns: int) -> None:
        brain = self._brain
        if brain.checkpoints is None:
            return
        if self.told and self.told[-1].took_ms < 0:
            self.told[-1].why += f", {why}"
        else:
            self.told.append(Recovered(why, now_ns))
        brain.state = "recovering"
        brain.checkpoints.lost()
        brain.operations.abandon(now_ns)
        if self.standbys is not None:
            self.standbys.reached.clear()  # whoever gets tasks has no shadow of them any more
        for member in brain.members.values():
            member.open = member.deployed = member.waits = False
            member.awaited = None

    def go_on(self, now_ns: int) -> None:
        """Deploy everyone again, once it is known which epoch is the last, and everyone or a standby is there."""
        brain = self._brain
        checkpoints = brain.checkpoints
        if checkpoints is None or brain.state != "recovering" or not checkpoints.may_go_back:
            return
        lost = [slot for slot, each in brain.members.items() if not each.alive]
        if lost and (self.standbys is None or not self.standbys.can_replace(lost)):
            return
        if lost and self.standbys is not None:
            for slot in lost:
                brain.membership.depart(slot)
            self.standbys.replace(lost)
        checkpoints.go_back()
        brain.book.begin_again(brain.placement)
        brain.begin_again(checkpoints.marks, now_ns)
        brain.received.rewind(checkpoints.numbers)
        brain.news = True
        brain.queues = queue_owners(
            brain.program.plan, brain.program.policy, brain.program.settings, brain.placement, brain.hosts
        )
        told = self.told[-1]
        told.epoch = 0 if checkpoints.durable is None else checkpoints.durable.epoch
        told.restored.clear()
        brain.membership.deploy_again()

    def opened(self, restored: dict[str, int], now_ns: int) -> None:
        """A worker is open again; with the last of them the query goes on."""
        if not self.told or self.told[-1].took_ms >= 0:
            return
        self.told[-1].restored.update(restored)
        if self._brain.state == "running":
            self.told[-1].took_ms = (now_ns - self.told[-1].begun_ns) / _NS_PER_MS
            self.follow()

    # -- standbys ------------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """An epoch is durable, or another worker is open: standbys hold what is there now."""
        if self.standbys is not None:
            self.standbys.follow()

    def followed(self, slot: int, epoch: int) -> None:
        """A worker holds what it stands by for, as of an epoch."""
        if self.standbys is not None:
            self.standbys.reached[slot] = epoch

    def look(self, now_ns: int) -> None:
        """Let displaced tasks go back, in the moment when that throws next to nothing away."""
        brain, checkpoints, standbys = self._brain, self._brain.checkpoints, self.standbys
        if standbys is None or checkpoints is None or not standbys.displaced or brain.draining:
            return
        if checkpoints.savepoints.busy:  # whoever waits for one does not wait for this too
            return
        if not (checkpoints.idle and brain.operations.idle and all(each.open for each in brain.members.values())):
            return
        if brain.all_done or not (tasks := standbys.returning(now_or_never=checkpoints.is_due(now_ns))):
            return
        slots = " and ".join(str(slot) for slot in sorted({*tasks.values()}))
        self.returns += 1
        self._give_up(f"tasks of worker {slots} went back", now_ns)
        standbys.give_back(tasks)
        self.go_on(now_ns)
