"""What follows from the loss of a worker where a query has checkpoints: everyone begins again as of the last epoch.

Owned by the coordinator's brain, and pure like it. Living workers are deployed again too, and go back by what they kept
in memory; until the lost worker's successor is there they work on in vain, and nothing they say counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.coordinator.brain import CoordinatorBrain


class Recovery:
    """The recoveries of one query."""

    def __init__(self, brain: CoordinatorBrain) -> None:
        self._brain = brain

    def begin(self, now_ns: int) -> None:
        """A worker is lost: give up what is under way."""
        brain = self._brain
        if brain.checkpoints is None:
            return
        brain.state = "recovering"
        brain.checkpoints.lost()
        brain.operations.abandon(now_ns)
        for member in brain.members.values():
            member.open = member.deployed = False
            member.awaited = None
        self.go_on(now_ns)

    def go_on(self, now_ns: int) -> None:
        """Deploy everyone again, once everyone is there and it is known which epoch is the last that is durable."""
        brain = self._brain
        checkpoints = brain.checkpoints
        if checkpoints is None or brain.state != "recovering" or not checkpoints.may_go_back:
            return
        if all(each.alive for each in brain.members.values()):
            checkpoints.go_back()
            brain.begin_again(checkpoints.marks, now_ns)
            brain.received.rewind(checkpoints.numbers)
            brain.news = True
            brain.membership.deploy_again()
