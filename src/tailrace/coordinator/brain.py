"""The brain of the driver: what workers say in, orders to workers out. No sockets, no threads, no own clock.

A query goes through ``registering -> deploying -> running -> ended``; ``draining`` is running without reading. Its
parts: ``membership`` knows who the workers are, ``operations`` carries out what all workers do together, ``balancing``,
``autopilot`` and ``rebalancing`` decide by what is measured.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from tailrace import protocol
from tailrace.coordinator.membership import Membership
from tailrace.coordinator.migration.key_loads import KeyLoads
from tailrace.coordinator.migration.rebalancing import Rebalancing
from tailrace.coordinator.operations.requests import OperationRequests
from tailrace.program.errors import CloseError

from .checkpoints import Checkpoints
from .deployment import check_sending, check_sharing
from .driver_sinks import remembered_sinks
from .failures import not_understood, rebuilt
from .incoming import LogLines, ReceivedQueue
from .invariants import CoordinatorInvariants
from .limits import check_limits
from .lost_state import LostState
from .recovery import Recovery
from .reporting.progress import ProgressBook
from .state_reads import StateReads
from .steering.autopilot import Autopilot
from .steering.balancing import Balancing
from .steering.measurements import Measured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tailrace.checkpoint.manifest import Manifest
    from tailrace.checkpoint.settings import Checkpoint
    from tailrace.coordinator.membership import Member
    from tailrace.program.program import Program
    from tailrace.reports import WorkerReport

_NS_PER_S = 1_000_000_000
#: What a worker says of the deployment it has, which may be one that was given up.
_OF_AN_EXECUTION = (
    protocol.Report, protocol.Marks, protocol.Available, protocol.TaskDone, protocol.Collected, protocol.Cleared,
    protocol.Installed, protocol.OperationFailed, protocol.Switched, protocol.Held, protocol.CutMarks,
    protocol.CutPrepared, protocol.PartWritten, protocol.CutFailed, protocol.InputDrained, protocol.Followed,
    protocol.PartsMerged,
    protocol.Committed,
)  # fmt: skip


class CoordinatorBrain:
    """One query's coordinator."""

    def __init__(
        self,
        query_id: str,
        program: Program,
        workers: int,
        partitions: list[list[Any]],
        python: str,
        checkpoint: Checkpoint | None = None,
        resumed: Manifest | None = None,
    ) -> None:
        check_sharing(program.plan, program.policy)
        check_sending(program)
        self.state = "registering"
        self.error: Exception | None = None
        self.out: deque[tuple[int, protocol.FromCoordinator]] = deque()
        self.members: dict[int, Member] = {}
        self.placement: list[list[int]] = []
        #: Per stage that shares its queue across workers: the slot of each task's queue.
        self.queues: dict[int, list[int]] = {}
        #: Per stage whose key groups have moved: who has them now.
        self.tables: dict[int, protocol.KeyTable] = {}
        self.book = ProgressBook(program.plan, program.settings.progress_kept)
        self.balancing = Balancing(program)
        self.autopilot = Autopilot(program)
        self.measured = Measured(program)
        self.key_loads = KeyLoads(program.plan)
        self.lost_state = LostState(self)
        self.membership = Membership(self, query_id, workers, python)
        self.operations = OperationRequests(self)
        self.recovery = Recovery(self, 0 if checkpoint is None else checkpoint.standby)
        self.state_reads = StateReads(self)
        self._invariants = CoordinatorInvariants(self)
        self.rebalancing = Rebalancing(program)
        #: What sinks of the user are to be given; bounded by what workers send before it is taken.
        self.received = ReceivedQueue(numbered=checkpoint is not None, remembered=remembered_sinks(program.plan))
        self.logs = LogLines(program.settings.log_lines_max)
        #: Whether something has come that the user's code on the driver waits for.
        self.news = False
        self.restarts = 0
        #: Whether the query has ever run; one that failed afterwards did start.
        self.started = False
        #: Tells the work that other queries of the session have on each node.
        self.busy: Callable[[], dict[str, float]] = dict
        self._program = program
        self.partitions = partitions
        self.checkpoints = None if checkpoint is None else Checkpoints(self, checkpoint, resumed)
        self._marks: dict[int, int] = {} if self.checkpoints is None else self.checkpoints.marks
        #: Per partition that has answered: the offset up to which it had something when it was asked.
        self.available: dict[int, int] = {}
        self._asked = 0
        self._tasks_done: set[tuple[int, int]] = set()
        self._tasks_all = {(stage.id, index) for stage in program.plan.stages for index in range(stage.tasks)}
        self._next_beat_ns = 0
        self._progress_ns = 0
        #: When starting began, and draining.
        self.started_ns = -1
        self.draining_since_ns: int | None = None

    # -- what workers say ----------------------------------------------------------------------------------------

    def on_message(self, connection: int, slot: int, message: protocol.FromWorker, now_ns: int) -> None:
        """Act on one message; ``slot`` is None until the connection has registered."""
        if isinstance(message, protocol.Register):
            self.membership.register(connection, message, now_ns)
            return
        member = self.members.get(slot)
        if member is None or member.connection != connection:
            return  # a worker that has been replaced
        if member.open or not isinstance(message, protocol.Stuck):  # an open() has only so long
            member.heard_ns = now_ns
        if self.checkpoints is not None and not member.open and isinstance(message, _OF_AN_EXECUTION):
            return  # of the one that was given up
        match message:
            case protocol.Deployed(restored=restored, execution=execution):
                if self.checkpoints is not None and (execution, True) != (self.checkpoints.execution, member.deployed):
                    return  # of one that was given up
                self.membership.deployed(slot, member)
                self.recovery.opened(restored, now_ns)
            case protocol.PeerSeen():
                self.membership.seen(slot, message)
            case protocol.Report(report=report, marks=marks):
                self._take_report(slot, member, report)
                self._take_marks(marks)
            case protocol.Available(serial=serial, offsets=offsets):
                if serial == self._asked:
                    self.available = offsets | self.available  # the first answer counts
            case protocol.Marks(marks=marks):
                self._take_marks(marks)
            case protocol.TaskDone(stage=stage, task=task):
                self._tasks_done.add((stage, task))
                if self.all_done and self.checkpoints is not None:
                    self.checkpoints.all_done()
                elif self.all_done:
                    self.end()
            case (
                protocol.CutMarks() | protocol.CutPrepared() | protocol.PartWritten() | protocol.CutFailed()
                | protocol.InputDrained() | protocol.Committed() | protocol.PartsMerged()
            ):  # fmt: skip
                if self.checkpoints is not None:
                    self.checkpoints.on_message(slot, message, now_ns)
            case protocol.Followed(epoch=epoch):
                self.recovery.followed(slot, epoch)
            case (
                protocol.Cleared() | protocol.Installed() | protocol.OperationFailed() | protocol.Switched()
                | protocol.Held()
            ):  # fmt: skip
                self.operations.on_message(slot, message, now_ns)
            case protocol.StateValues():
                self.state_reads.heard(message)
            case protocol.Failure():
                self._failed(rebuilt(message))
            case protocol.Stuck():
                member.stuck = max(member.stuck, message, key=lambda each: each.sequence)
            case protocol.LogLine():
                self.logs.add(message)
                self.news = True
            case protocol.Collected():
                self.received.add(connection, message)
                self.news = True
            case _:  # whoever adds a message must enter it here
                self.fail(not_understood(slot, type(message).__name__))  # type: ignore[unreachable]

    def _failed(self, error: Exception) -> None:
        """A worker has failed; a ``close()`` that fails does so when the query has ended, and counts all the same."""
        if self.state == "ended" and self.error is None and isinstance(error, CloseError):
            self.error = error
        self.fail(error)

    def _take_report(self, slot: int, member: Member, report: WorkerReport) -> None:
        """Add up what it counts since the one before; what it says of now holds unless a newer one has come."""
        standing = member.reports.admit(report.sequence)
        if standing == "repeated":
            return
        self.balancing.add(slot, report)
        self.key_loads.add(report)
        self.book.add(slot, report)
        if standing == "newest":
            member.report = report
            self.measured.take(slot, report)
            self.book.take(slot, report)

    def _take_marks(self, marks: dict[int, int]) -> None:
        for partition, offset in marks.items():
            if offset > self._marks.get(partition, -1):
                self._marks[partition] = offset
                self.news = True

    @property
    def marks(self) -> dict[int, int]:
        """Per partition the offset below which everything is complete."""
        return self._marks

    def ask_available(self, serial: int) -> None:
        """Ask all sources what is there now; ``available`` gathers the answers."""
        self._asked, self.available = serial, {}
        self.tell_all(protocol.AskAvailable(serial))

    def taken(self, serials: dict[int, int]) -> None:
        """The user's sinks have what these connections sent, each up to a serial: their workers may acknowledge it."""
        for member in self.members.values():
            if member.connection in serials:
                self.tell(member, protocol.Taken(serials[member.connection]))

    def on_gone(self, connection: int, now_ns: int) -> None:
        """A connection broke: its worker is lost until another registers for the slot."""
        for slot, member in list(self.members.items()):
            if member.connection == connection and member.alive:
                member.alive = False
                if self.checkpoints is None:
                    self.lost_state.on_lost(slot, member)
                member.deployed = member.open = False
                member.lost_ns = now_ns
                if self.checkpoints is not None and self.started and self.state != "ended":
                    self.membership.depart(slot) if member.waits else self.recovery.begin(slot, now_ns)
                    return
                self.operations.on_lost(slot, now_ns)
                self.membership.lost(slot)

    def begin_again(self, marks: dict[int, int], now_ns: int) -> None:
        """Everyone is about to be deployed as of these marks: nothing is done, and the time to start counts anew."""
        self._marks = marks
        self._tasks_done.clear()
        self.started_ns = now_ns

    @property
    def all_done(self) -> bool:
        """Whether every task has come to its end."""
        return self._tasks_done == self._tasks_all

    def is_done(self, stage: int, task: int) -> bool:
        """Whether a task has seen the end of its input and is closed."""
        return (stage, task) in self._tasks_done

    @property
    def program(self) -> Program:
        """What every worker runs."""
        return self._program

    @property
    def hosts(self) -> dict[int, str]:
        """The node of each slot."""
        return {slot: member.peer.node_name for slot, member in self.members.items()}

    def validate(self) -> None:
        """Check what must always hold between two calls; raises ``InvariantError`` with what does not."""
        self._invariants.check()

    # -- going on and ending -------------------------------------------------------------------------------------

    def tick(self, now_ns: int) -> None:
        """Do what the clock asks for: leases, progress, time limits."""
        settings = self._program.settings
        if self.started_ns < 0:
            self.started_ns = now_ns
        if self.state == "ended":
            return
        if now_ns >= self._next_beat_ns:
            self._next_beat_ns = now_ns + int(min(settings.progress_s, settings.lease_s / 5) * _NS_PER_S)
            self.tell_all(protocol.Beat(self._marks), only_deployed=False)
        if self.state == "running" and self._progress_due(now_ns):
            seconds = (now_ns - self._progress_ns) / _NS_PER_S if self._progress_ns else settings.progress_s
            self._progress_ns = now_ns
            self.book.close_period(now_ns, self)
            self._steer(seconds)
            self.rebalancing.look(now_ns, self)
        if self.state == "running":
            self._balance(now_ns)
            if self.checkpoints is None or self.checkpoints.idle:
                self.operations.tick(now_ns)
            if self.checkpoints is not None:
                self.recovery.look(now_ns)
        if self.state == "running" and self.checkpoints is not None:
            self.checkpoints.tick(now_ns)
        self.recovery.go_on(now_ns)
        self.state_reads.look()
        check_limits(self, now_ns)

    def _steer(self, seconds: float) -> None:
        """Let the steps that are left to the coordinator be switched, while all workers run."""
        if self.draining or not all(member.open for member in self.members.values()):
            return
        if self.autopilot.consider(self.book.recent[-1], seconds) is not None:
            self.operations.switch_policies()

    def switch(self, steps: dict[str, str]) -> None:
        """Let a user choose policies, or give the choice back."""
        self.autopilot.hold(steps)
        self.operations.switch_policies()

    def tell_policies(self) -> None:
        """Let all workers go by the present choice."""
        self.balancing.switch(self.autopilot.present.routing)
        for _, member in self._living(only_deployed=True):
            self.tell_choice(member)

    def tell_choice(self, member: Member) -> None:
        """Tell a worker what was chosen and measured before it came, or just now."""
        if self.autopilot.present.epoch:
            self.tell(member, self.autopilot.present)
        for edge, balance in self.balancing.told.items():
            self.tell(member, protocol.Weights(edge, list(balance.weights)))

    def _balance(self, now_ns: int) -> None:
        """Tell the senders of an edge when its weights have changed."""
        for edge in self.balancing.adjust(now_ns, {slot for slot, member in self.members.items() if member.open}):
            weights = protocol.Weights(edge.id, list(self.balancing.balances[edge.id].weights))
            for slot in sorted(set(self.placement[edge.src_stage])):
                if self.members[slot].deployed:
                    self.tell(self.members[slot], weights)

    def _progress_due(self, now_ns: int) -> bool:
        """Once everyone has reported, so that rates do not flicker; at the latest after two periods."""
        passed_s = (now_ns - self._progress_ns) / _NS_PER_S
        everyone = self.book.reported >= {slot for slot, member in self.members.items() if member.open}
        return passed_s >= (0.5 if everyone else 2.0) * self._program.settings.progress_s

    def drain(self, now_ns: int) -> None:
        """Read nothing more; the query ends when everything open is complete."""
        if self.draining_since_ns is None and self.state != "ended":
            self.draining_since_ns = now_ns
            self.operations.stop("the query is being stopped", now_ns)
            if not self.placement:
                self.end()
                return
            self.tell_all(protocol.Drain())

    @property
    def tasks_open(self) -> set[tuple[int, int]]:
        """Stage and index of each task that has not seen the end of its input."""
        return self._tasks_all - self._tasks_done

    @property
    def draining(self) -> bool:
        """Whether the query is being stopped."""
        return self.draining_since_ns is not None

    def fail(self, error: Exception) -> None:
        """End the query because of an error; the first one counts."""
        if self.state != "ended":
            self.error = error
            self.end()

    def fail_even_late(self, error: Exception) -> None:
        """End the query because of an error; where it has ended without one, it has failed all the same."""
        self.fail(error)
        self.error = self.error or error

    def close_book(self, now_ns: int) -> None:
        """Write the last progress down, with what workers said on leaving."""
        if self.placement:
            self.book.close_period(now_ns, self)

    def stop_now(self) -> None:
        """End the query without waiting for anything."""
        self.end()

    def end(self) -> None:
        """End the query: everything is done, or it has failed, or nothing is waited for."""
        if self.state != "ended":
            self.state = "ended"
            self.tell_all(protocol.Stop(), only_deployed=False)

    def tell(self, member: Member, message: protocol.FromCoordinator) -> None:
        """Tell one worker."""
        self.out.append((member.connection, message))

    def tell_all(self, message: protocol.FromCoordinator, *, besides: int = -1, only_deployed: bool = True) -> None:
        """Tell every worker that lives and has the program, or has registered at least."""
        for slot, member in self._living(only_deployed=only_deployed):
            if slot != besides:
                self.tell(member, message)

    def _living(self, *, only_deployed: bool) -> Iterable[tuple[int, Member]]:
        return [
            (slot, each) for slot, each in self.members.items() if each.alive and (each.deployed or not only_deployed)
        ]
