"""The brain of the driver: what workers say in, orders to workers out. No sockets, no threads, no own clock.

A query goes through ``registering -> deploying -> running -> ended``; ``draining`` is running without reading. A
worker that is lost is replaced by whoever registers for its slot next: all others first refuse the old one, then the
new one is deployed with the same tasks, then open roots are sent again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace import protocol
from tailrace.connect.errors import MissingColumnError, NullValueError, WrongSchemaError
from tailrace.receiving.homes import queue_homes
from tailrace.routing.fixed import RouteError
from tailrace.transport import codec
from tailrace.version import __version__
from tailrace.worker.errors import OperatorError
from tailrace.worker.nearness import homes_of

from . import errors
from .autopilot import Autopilot
from .balancing import Balancing
from .deployment import check_sending, check_sharing, place_tasks
from .measured import Measured
from .moving import Moves
from .progress import ProgressBook
from .rebalancing import Rebalancing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tailrace.errors import TailraceError
    from tailrace.worker.build import Program

_NS_PER_S = 1_000_000_000


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
    #: Slots whose workers have yet to say that they refuse this member's predecessor; None when that is settled.
    awaited: set[int] | None = None
    snapshot: dict[str, Any] = field(default_factory=dict)


class CoordinatorBrain:
    """One query's coordinator."""

    def __init__(self, query_id: str, program: Program, workers: int, partitions: list[list[Any]], python: str) -> None:
        check_sharing(program.plan, program.policy)
        check_sending(program)
        self.state = "registering"
        self.error: Exception | None = None
        self.out: deque[tuple[int, protocol.FromCoordinator]] = deque()
        self.members: dict[int, Member] = {}
        self.placement: list[list[int]] = []
        self._homes: list[list[tuple[int, int]]] = []
        #: Per stage that shares its queue across workers: the slot of each task's queue.
        self.queues: dict[int, list[int]] = {}
        self.book = ProgressBook(program.plan, program.settings.progress_kept)
        self.balancing = Balancing(program)
        self.autopilot = Autopilot(program)
        self.measured = Measured(program)
        self.moves = Moves(self, program)
        self.rebalancing = Rebalancing(program)
        self.received: deque[tuple[str, Any]] = deque()
        self.logs: deque[protocol.LogLine] = deque(maxlen=1000)
        self.restarts = 0
        #: Whether the query has ever run; one that failed afterwards did start.
        self.started = False
        #: Tells the work that other queries of the session have on each node.
        self.busy: Callable[[], dict[str, float]] = dict
        self._query_id = query_id
        self._program = program
        self._workers = workers
        #: The slots that workers may register for.
        self._slots = set(range(workers))
        self._slots_used = workers
        self.partitions = partitions
        self._python = python
        self._marks: dict[int, int] = {}
        self._tasks_done: set[tuple[int, int]] = set()
        self._tasks_all = {(stage.id, index) for stage in program.plan.stages for index in range(stage.tasks)}
        self._next_beat_ns = 0
        self._progress_ns = 0
        self._started_ns = -1
        self._draining_since_ns: int | None = None

    # -- what workers say ----------------------------------------------------------------------------------------

    def on_message(self, connection: int, slot: int, message: protocol.FromWorker, now_ns: int) -> None:
        """Act on one message; ``slot`` is None until the connection has registered."""
        if isinstance(message, protocol.Register):
            self._register(connection, message, now_ns)
            return
        member = self.members.get(slot)
        if member is None or member.connection != connection:
            return  # a worker that has been replaced
        member.heard_ns = now_ns
        match message:
            case protocol.Deployed():
                self._deployed(slot, member)
            case protocol.PeerSeen():
                self._peer_seen(slot, message, now_ns)
            case protocol.Report(snapshot=snapshot, marks=marks):
                member.snapshot = snapshot
                self.balancing.take(slot, snapshot)
                self.measured.take(slot, snapshot)
                self.book.take(slot, snapshot)
                self._take_marks(marks)
            case protocol.Marks(marks=marks):
                self._take_marks(marks)
            case protocol.TaskDone(stage=stage, task=task):
                self._tasks_done.add((stage, task))
                if self._tasks_done == self._tasks_all:
                    self._end()
            case protocol.Cleared() | protocol.Installed() | protocol.MoveFailed() | protocol.Relocated():
                self.moves.on_message(slot, message, now_ns)
            case protocol.Failure():
                self.fail(_rebuilt(message))
            case protocol.LogLine():
                self.logs.append(message)
            case protocol.Collected():
                self._receive(message)
                self._tell(member, protocol.Taken(message.serial))

    def _take_marks(self, marks: dict[int, int]) -> None:
        for partition, offset in marks.items():
            self._marks[partition] = max(offset, self._marks.get(partition, 0))

    @property
    def marks(self) -> dict[int, int]:
        """Per partition the offset below which everything is complete."""
        return self._marks

    def _receive(self, message: protocol.Collected) -> None:
        try:
            self.received.append((message.operator, codec.loads(message.values)))
        except Exception as error:  # noqa: BLE001 - unpickling runs a user's code
            self.fail(
                errors.QueryError(
                    f"Values that sink {message.operator!r} sent to the driver cannot be read there: "
                    f"{type(error).__name__}: {error}.",
                    "Make the modules that define their classes importable on the driver.",
                )
            )

    def on_gone(self, connection: int, now_ns: int) -> None:
        """A connection broke: its worker is lost until another registers for the slot."""
        for slot, member in self.members.items():
            if member.connection == connection and member.alive:
                member.alive = member.deployed = member.open = False
                member.lost_ns = now_ns
                self.moves.on_lost(slot, now_ns)
                for other_slot, other in self.members.items():
                    if other.awaited is not None and slot in other.awaited:
                        other.awaited.discard(slot)
                        self._deploy_if_settled(other_slot, other)

    # -- joining -------------------------------------------------------------------------------------------------

    def _register(self, connection: int, message: protocol.Register, now_ns: int) -> None:
        old = self.members.get(message.slot)
        if self.state == "ended" or message.slot not in self._slots:
            self._refuse(connection, "the query has ended or has no such slot")
            return
        if old is not None and message.launch <= old.register.launch:
            self._refuse(connection, "a later start has this slot")
            return
        if message.version != __version__ or message.python.split(".")[:2] != self._python.split(".")[:2]:
            self._refuse(connection, "versions differ")
            self.fail(
                errors.VersionMismatchError(
                    f"The driver has tailrace {__version__} on Python {self._python}; executor {message.executor} on "
                    f"{message.peer.host} has {message.version} on Python {message.python}.",
                    "Ship the driver's environment to the executors; docs/deploy.md says how.",
                )
            )
            return
        # Above every other's: a source that has moved uses the attempt of its place to tell its incarnations apart.
        attempt = 1 if old is None else 1 + max(each.attempt for each in self.members.values())
        peer = msgspec.structs.replace(message.peer, attempt=attempt)
        member = self.members[message.slot] = Member(connection, attempt, message, peer, now_ns)
        self._tell(member, protocol.Welcome(attempt))
        if self.state == "registering":
            if len(self.members) == self._workers and all(each.alive for each in self.members.values()):
                self._deploy_all()
        elif self._program_deployed:
            member.joins = old is None
            self._readopt(message.slot, member)

    @property
    def program(self) -> Program:
        """What every worker runs."""
        return self._program

    @property
    def hosts(self) -> dict[int, str]:
        """The node of each slot."""
        return {slot: member.peer.node_name for slot, member in self.members.items()}

    @property
    def _program_deployed(self) -> bool:
        return bool(self.placement)

    def _refuse(self, connection: int, reason: str) -> None:
        self.out.append((connection, protocol.Refused(reason)))

    def _deploy_all(self) -> None:
        self.state = "deploying"
        program = self._program
        self.placement = place_tasks(program, self.hosts, busy=self.busy())
        if program.policy.locality != "off":
            self._homes = homes_of(self.placement, self.hosts)
        self.queues = queue_homes(program.plan, program.policy, program.settings, self.placement, self.hosts)
        for member in self.members.values():
            self._deploy(member)

    def _deploy(self, member: Member) -> None:
        member.deployed = True
        self._tell(member, self._deploy_message())
        if self.state == "running":
            for other in self.members.values():
                if other is not member and other.alive and not other.open:
                    self._tell(member, protocol.PeerUp(other.peer))  # so that nothing is sent to it before its Resume

    def _deploy_message(self) -> protocol.Deploy:
        return protocol.Deploy(
            query=self._query_id,
            program=codec.dumps_by_value(self._program),
            placement=self.placement,
            peers=[member.peer for member in self.members.values()],
            partitions=[[*row, self._marks.get(row[0], 0)] for row in self.partitions],
            marks=self._marks,
            homes=self._homes,
            queues=self.queues,
        )

    def _deployed(self, slot: int, member: Member) -> None:
        member.open = True
        if self.state == "deploying":
            if member.attempt > 1:
                self._tell_all(protocol.Resume(slot), besides=slot)
            if all(each.open for each in self.members.values()):
                self.state = "running"
                self.started = True
                for each in self.members.values():
                    each.heard_ns = member.heard_ns  # from now on they report
                self._tell_all(protocol.Go())
        else:
            self._tell_choice(member)
            self._tell(member, protocol.Go())
            self._tell_all(protocol.Resume(slot, lost=not member.joins), besides=slot)
        if self._draining_since_ns is not None:
            self._tell(member, protocol.Drain())

    def _readopt(self, slot: int, member: Member) -> None:
        """Give a lost worker's slot to its successor, after every other worker has refused the predecessor."""
        self.restarts += not member.joins
        self.book.forget(slot)
        self.measured.forget(slot)
        member.awaited = {other for other, each in self.members.items() if other != slot and each.deployed}
        self._tell_all(protocol.PeerUp(member.peer), besides=slot)
        self._deploy_if_settled(slot, member)

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
            if slot in self.members:
                self._tell_all(protocol.Leave(slot), only_deployed=False)
                del self.members[slot]
                self.book.forget(slot)
                self.measured.forget(slot)

    def _peer_seen(self, slot: int, message: protocol.PeerSeen, now_ns: int) -> None:
        del now_ns
        member = self.members.get(message.slot)
        if member is not None and member.awaited is not None and member.attempt == message.attempt:
            member.awaited.discard(slot)
            self._deploy_if_settled(message.slot, member)

    def _deploy_if_settled(self, slot: int, member: Member) -> None:
        del slot
        if member.awaited is not None and not member.awaited and member.alive:
            member.awaited = None
            self._deploy(member)

    # -- going on and ending -------------------------------------------------------------------------------------

    def tick(self, now_ns: int) -> None:
        """Do what the clock asks for: leases, progress, time limits."""
        settings = self._program.settings
        if self._started_ns < 0:
            self._started_ns = now_ns
        if self.state == "ended":
            return
        if now_ns >= self._next_beat_ns:
            self._next_beat_ns = now_ns + int(min(settings.progress_s, settings.lease_s / 5) * _NS_PER_S)
            self._tell_all(protocol.Beat(self._marks), only_deployed=False)
        if self.state == "running" and self._progress_due(now_ns):
            seconds = (now_ns - self._progress_ns) / _NS_PER_S if self._progress_ns else settings.progress_s
            self._progress_ns = now_ns
            self.book.close_period(now_ns, self)
            self._steer(seconds)
            self.rebalancing.look(now_ns, self)
        if self.state == "running":
            self._balance(now_ns)
            self.moves.tick(now_ns)
        self._check_limits(now_ns)

    def _steer(self, seconds: float) -> None:
        """Let the steps that are left to the coordinator be switched, while all workers run."""
        if self.draining or not all(member.open for member in self.members.values()):
            return
        if self.autopilot.consider(self.book.recent[-1], seconds) is not None:
            self._tell_switch()

    def switch(self, steps: dict[str, str]) -> None:
        """Let a user choose policies, or give the choice back."""
        self.autopilot.hold(steps)
        self._tell_switch()

    def _tell_switch(self) -> None:
        """Let all workers go by the present choice."""
        self.balancing.switch(self.autopilot.present.routing)
        for _, member in self._living(only_deployed=True):
            self._tell_choice(member)

    def _tell_choice(self, member: Member) -> None:
        """Tell a worker what was chosen and measured before it came, or just now."""
        if self.autopilot.present.epoch:
            self._tell(member, self.autopilot.present)
        for edge, balance in self.balancing.told.items():
            self._tell(member, protocol.Weights(edge, list(balance.weights)))

    def _balance(self, now_ns: int) -> None:
        """Tell the senders of an edge when its weights have changed."""
        for edge in self.balancing.adjust(now_ns, {slot for slot, member in self.members.items() if member.open}):
            weights = protocol.Weights(edge.id, list(self.balancing.balances[edge.id].weights))
            for slot in sorted(set(self.placement[edge.src_stage])):
                if self.members[slot].deployed:
                    self._tell(self.members[slot], weights)

    def _progress_due(self, now_ns: int) -> bool:
        """Once everyone has reported, so that rates do not flicker; at the latest after two periods."""
        passed_s = (now_ns - self._progress_ns) / _NS_PER_S
        everyone = self.book.reported >= {slot for slot, member in self.members.items() if member.open}
        return passed_s >= (0.5 if everyone else 2.0) * self._program.settings.progress_s

    def _check_limits(self, now_ns: int) -> None:
        settings = self._program.settings
        limit_ns = int(settings.register_timeout_s * _NS_PER_S)
        if self.state in {"registering", "deploying"} and now_ns - self._started_ns > limit_ns:
            self.fail(
                errors.StartError(
                    f"{self._workers} workers were expected within {settings.register_timeout_s:.0f} s; "
                    f"{len(self.members)} registered.",
                    "Ask for fewer workers, give the application more cores, or raise register_timeout_s; "
                    "executors must be able to reach the driver's address.",
                )
            )
        for slot, member in self.members.items():
            # Until it runs a worker has nothing to say: it waits for others, or for a user's open().
            reports = member.open and self.state == "running"
            patience_ns = 2 * settings.lease_s * _NS_PER_S if reports else limit_ns
            if member.alive and now_ns - member.heard_ns > patience_ns:
                self.on_gone(member.connection, now_ns)
            if not member.alive and now_ns - member.lost_ns > limit_ns:
                self.fail(
                    errors.WorkerLostError(
                        f"Worker {slot} (executor {member.register.executor} on {member.peer.host}) was lost and "
                        f"did not come back within {settings.register_timeout_s:.0f} s.",
                        "Look at the executor's log; spark.task.maxFailures may have been reached.",
                    )
                )
        since_ns = self._draining_since_ns
        if since_ns is not None and now_ns - since_ns > settings.drain_timeout_s * _NS_PER_S:
            self.fail(
                errors.DrainTimeoutError(
                    f"Open tuples did not come to an end within {settings.drain_timeout_s:.0f} s of stopping.",
                    "Call stop(now=True) to leave them, or raise drain_timeout_s.",
                )
            )

    def drain(self, now_ns: int) -> None:
        """Read nothing more; the query ends when everything open is complete."""
        if self._draining_since_ns is None and self.state != "ended":
            self._draining_since_ns = now_ns
            self.moves.cancel("the query is being stopped", now_ns)
            if not self._program_deployed:
                self._end()
                return
            self._tell_all(protocol.Drain())

    @property
    def draining(self) -> bool:
        """Whether the query is being stopped."""
        return self._draining_since_ns is not None

    def fail(self, error: Exception) -> None:
        """End the query because of an error; the first one counts."""
        if self.state != "ended":
            self.error = error
            self._end()

    def close_book(self, now_ns: int) -> None:
        """Write the last progress down, with what workers said on leaving."""
        if self._program_deployed:
            self.book.close_period(now_ns, self)

    def stop_now(self) -> None:
        """End the query without waiting for anything."""
        self._end()

    def _end(self) -> None:
        if self.state != "ended":
            self.state = "ended"
            self._tell_all(protocol.Stop(), only_deployed=False)

    def tell_all(self, message: protocol.FromCoordinator) -> None:
        """Tell every worker that runs."""
        self._tell_all(message)

    def _tell(self, member: Member, message: protocol.FromCoordinator) -> None:
        self.out.append((member.connection, message))

    def _tell_all(self, message: protocol.FromCoordinator, *, besides: int = -1, only_deployed: bool = True) -> None:
        for slot, member in self._living(only_deployed=only_deployed):
            if slot != besides:
                self._tell(member, message)

    def _living(self, *, only_deployed: bool) -> Iterable[tuple[int, Member]]:
        return [
            (slot, each) for slot, each in self.members.items() if each.alive and (each.deployed or not only_deployed)
        ]


def _rebuilt(failure: protocol.Failure) -> Exception:
    """Make a worker's error anew on the driver, under its own name where that is one of ours."""
    named: tuple[type[TailraceError], ...] = (
        OperatorError, RouteError, WrongSchemaError, MissingColumnError, NullValueError,
    )  # fmt: skip
    kinds = {each.__name__: each for each in named}
    return kinds.get(failure.kind, errors.QueryError)(failure.message, failure.hint)
