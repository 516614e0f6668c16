"""Who the workers of a query are: they register, are deployed, are replaced when lost, join late and leave.

Part of the coordinator's brain, which hands the messages over; pure like it. A lost worker's slot goes to whoever
registers for it next: all others first refuse the old one, then the new one is deployed with the same tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from tailrace import protocol
from tailrace.coordinator import errors
from tailrace.coordinator.deployment import place_tasks
from tailrace.coordinator.reporting.report_sequence import ReportSequence
from tailrace.receiving.queue_owners import queue_owners
from tailrace.reports import WorkerReport
from tailrace.routing.near import places_of
from tailrace.transport import codec
from tailrace.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.coordinator.brain import CoordinatorBrain

_NO_REPORT = WorkerReport(0)
_NOT_STUCK = protocol.Stuck(0, ())


@dataclass
class Member:
    """The worker that has a slot."""

    connection: int
    attempt: int
    register: protocol.Register
    peer: protocol.Peer
    heard_ns: int
    alive: bool = True
    #: Whether the program was sent to it: from then on it must hear what becomes of its peers.
    deployed: bool = False
    open: bool = False
    lost_ns: int = 0
    #: Whether it was added while the query ran: it had no predecessor, so nothing was lost.
    joins: bool = False
    #: Whether it does not take part yet: it joins when no other operation is under way.
    waits: bool = False
    #: Slots whose workers have yet to say that they refuse this member's predecessor; None when that is settled.
    awaited: set[int] | None = None
    reports: ReportSequence = field(default_factory=ReportSequence)
    #: Its newest report.
    report: WorkerReport = _NO_REPORT
    #: User code of this worker that has not come back, by its own last word.
    stuck: protocol.Stuck = _NOT_STUCK


class Membership:
    """The slots of one query and who may have them."""

    def __init__(self, brain: CoordinatorBrain, query_id: str, workers: int, python: str) -> None:
        self.workers = workers
        self._brain = brain
        self._query_id = query_id
        self._python = python
        #: The slots that workers may register for.
        self._slots = set(range(workers))
        self._slots_used = workers
        #: Workers that were lost and whose tasks went on elsewhere: a successor joins like one that is new.
        self._departed: dict[int, Member] = {}
        #: Node and slot of every task by which streams keep near; none where they do not.
        self.origins: list[list[tuple[int, int]]] = []

    def register(self, connection: int, message: protocol.Register, now_ns: int) -> None:
        """Give a worker the slot it asks for, or say why not."""
        departed = self._departed.get(message.slot)
        old = self._brain.members.get(message.slot, departed)
        if old is not None and old.alive and message.launch > old.register.launch:
            self._brain.on_gone(old.connection, now_ns)  # its successor is here before its connection broke
        if self._brain.state == "ended" or message.slot not in self._slots:
            self._refuse(connection, "the query has ended or has no such slot")
            return
        if old is not None and message.launch <= old.register.launch:
            self._refuse(connection, "a later start has this slot")
            return
        if message.version != __version__ or message.python.split(".")[:2] != self._python.split(".")[:2]:
            self._refuse(connection, "versions differ")
            self._brain.fail(
                errors.VersionMismatchError(
                    f"The driver has tailrace {__version__} on Python {self._python}; executor {message.executor} on "
                    f"{message.peer.host} has {message.version} on Python {message.python}.",
                    "Ship the driver's environment to the executors; docs/deploy.md says how.",
                )
            )
            return
        # Above every other's: a source that has moved uses the attempt of its place to tell its incarnations apart.
        known = [*self._brain.members.values(), *self._departed.values()]
        attempt = 1 if old is None else 1 + max(each.attempt for each in known)
        self._departed.pop(message.slot, None)
        peer = msgspec.structs.replace(message.peer, attempt=attempt)
        member = self._brain.members[message.slot] = Member(connection, attempt, message, peer, now_ns)
        self._brain.tell(member, protocol.Welcome(attempt))
        if self._brain.state == "registering":
            if len(self._brain.members) == self.workers and all(each.alive for each in self._brain.members.values()):
                self._deploy_all()
        elif self._brain.state == "recovering":
            self._brain.restarts += 1
            self._brain.book.forget(message.slot, self._brain.placement)
            self._brain.measured.forget(message.slot)
        elif self._brain.placement:
            if old is None or old.waits or departed is not None:
                self._brain.restarts += departed is not None
                member.joins = member.waits = True
                self._brain.operations.join()
            else:
                self._readopt(message.slot, member)

    def admit(self) -> None:
        """Let those take part that have registered for new slots."""
        for slot, member in self._brain.members.items():
            if member.waits:
                member.waits = False
                self._readopt(slot, member)

    def _refuse(self, connection: int, reason: str) -> None:
        self._brain.out.append((connection, protocol.Refused(reason)))

    def _deploy_all(self) -> None:
        brain = self._brain
        program, hosts = brain.program, brain.hosts
        brain.state = "deploying"
        brain.placement = place_tasks(program, hosts, busy=brain.busy())
        if program.policy.locality != "off":
            # As of the driver before, if there was one: roots that it has sent are sent again to the same tasks.
            kept = [] if brain.checkpoints is None else brain.checkpoints.origins
            self.origins = kept or places_of(brain.placement, hosts)
        brain.queues = queue_owners(program.plan, program.policy, program.settings, brain.placement, hosts)
        for member in brain.members.values():
            self._deploy(member)

    def deploy_again(self) -> None:
        """Deploy everyone as of the last durable epoch; each task where it was."""
        self._brain.state = "deploying"
        for member in self._brain.members.values():
            self._deploy(member)

    def _deploy(self, member: Member) -> None:
        member.deployed = True
        self._brain.tell(member, self._deploy_message(member.peer.slot))
        if self._brain.state == "running":
            for other in self._brain.members.values():
                if other is not member and other.alive and not other.open:
                    # So that nothing is sent to it before its Resume.
                    self._brain.tell(member, protocol.PeerUp(other.peer))

    def _deploy_message(self, slot: int) -> protocol.Deploy:
        checkpoints = self._brain.checkpoints
        return protocol.Deploy(
            query=self._query_id,
            program=codec.dumps_by_value(self._brain.program),
            # Copies: what is sent later must be of one moment, and another recovery may come before.
            placement=[list(row) for row in self._brain.placement],
            peers=[member.peer for member in self._brain.members.values()],
            partitions=[[*row, self._brain.marks.get(row[0], 0)] for row in self._brain.partitions],
            marks=self._brain.marks,
            origins=self.origins,
            queues=self._brain.queues,
            tables=dict(self._brain.tables),
            durability=None if checkpoints is None else checkpoints.order_for(slot),
        )

    def deployed(self, slot: int, member: Member) -> None:
        """A worker has opened its tasks: the query begins with the last of them, or goes on with this one."""
        member.open = True
        self._brain.operations.on_open(slot)
        if self._brain.state == "deploying":
            if member.attempt > 1 and self._brain.checkpoints is None:
                self._brain.tell_all(protocol.Resume(slot), besides=slot)
            if all(each.open or each.waits for each in self._brain.members.values()):
                self._brain.state = "running"
                self._brain.started = True
                for each in self._brain.members.values():
                    each.heard_ns = member.heard_ns  # from now on they report
                    if each.deployed:  # after a recovery something may have been chosen already
                        self._brain.tell_choice(each)
                self._brain.tell_all(protocol.Go())
        else:
            self._brain.tell_choice(member)
            self._brain.tell(member, protocol.Go())
            self._brain.tell_all(protocol.Resume(slot, lost=not member.joins), besides=slot)
        if self._brain.draining:
            self._brain.tell(member, protocol.Drain())

    def _readopt(self, slot: int, member: Member) -> None:
        """Give a lost worker's slot to its successor, after every other worker has refused the predecessor."""
        self._brain.restarts += not member.joins
        self._brain.book.forget(slot, self._brain.placement)
        self._brain.measured.forget(slot)
        member.awaited = {other for other, each in self._brain.members.items() if other != slot and each.deployed}
        self._brain.tell_all(protocol.PeerUp(member.peer), besides=slot)
        self._deploy_if_settled(member)

    def lost(self, slot: int) -> None:
        """A worker is gone: whoever waited for its word waits no more."""
        for other in self._brain.members.values():
            if other.awaited is not None and slot in other.awaited:
                other.awaited.discard(slot)
                self._deploy_if_settled(other)

    def expect(self, workers: int) -> list[int]:
        """Let so many more workers join; gives their slots, which no worker has had before."""
        fresh = list(range(self._slots_used, self._slots_used + workers))
        self._slots_used += workers
        self._slots.update(fresh)
        return fresh

    def dismiss(self, slots: Iterable[int]) -> None:
        """Let workers go that have no tasks any more, or have not come."""
        for slot in slots:
            self._slots.discard(slot)
            if slot in self._brain.members:
                self._brain.tell_all(protocol.Leave(slot), only_deployed=False)
                del self._brain.members[slot]
                self._brain.book.forget(slot, self._brain.placement)
                self._brain.measured.forget(slot)

    def depart(self, slot: int) -> None:
        """A lost worker is waited for no more: its tasks, if it had any, go on elsewhere."""
        member = self._departed[slot] = self._brain.members.pop(slot)
        self._brain.tell_all(protocol.Leave(slot), only_deployed=False)
        self._brain.measured.forget(slot)
        self._brain.operations.on_lost(slot, member.lost_ns)
        self.lost(slot)

    def seen(self, slot: int, message: protocol.PeerSeen) -> None:
        """A worker refuses the predecessor of another from now on."""
        member = self._brain.members.get(message.slot)
        if member is not None and member.awaited is not None and member.attempt == message.attempt:
            member.awaited.discard(slot)
            self._deploy_if_settled(member)

    def _deploy_if_settled(self, member: Member) -> None:
        if member.awaited is not None and not member.awaited and member.alive:
            member.awaited = None
            self._deploy(member)
