"""The brain of a worker: messages and finished work in, messages and work out. No sockets, no threads, no own clock.

The loop (real or simulated) feeds it and carries out what it says:

    on_control(msg)   what the coordinator said           ->  ``control_out`` holds the answers
    on_message(data)  what another worker sent
    next_work()       the next piece of user code to run  ->  finish(work) brings its results back
    flush()           send what waits; ``send(slot, bytes)`` was passed in and says whether there was room
    wait_us()         how long the loop may sleep

What it was told to run, and all that serves it, is its ``deployment``; the brain itself knows who this worker is,
whether it runs, and which task's code is at hand.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from tailrace import protocol
from tailrace.connect import lookup
from tailrace.program.errors import ProtocolError, user_stack
from tailrace.reports import ProcessReport
from tailrace.transport import codec
from tailrace.transport import message_codec as mail
from tailrace.worker.checkpoint.restore import no_store
from tailrace.worker.checkpoint.shadows import Shadows
from tailrace.worker.deployment import Deployment, Surroundings
from tailrace.worker.execution.scheduler import HELD_US, IDLE_US
from tailrace.worker.execution.task import CommitWork

from .blame import call_error, grouping_error, named_error
from .ending import close_states, close_task

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from tailrace.clock import Clock
    from tailrace.topology.operators import OperatorSpec, TaskContext
    from tailrace.worker.checkpoint.cutter import PartWrite
    from tailrace.worker.execution.task import Task, Work
    from tailrace.worker.uplink.link import Meets

#: Characters of one line of a log.
LOG_CHARS_MAX = 5000


class WorkerBrain:
    """One worker's tasks and mail."""

    def __init__(
        self,
        slot: int,
        attempt: int,
        clock: Clock,
        send: Callable[[int, bytes], bool],
        context_of: Callable[[OperatorSpec, int, int], TaskContext],
        node_peers: Meets | None = None,
        get_object: Callable[[str], bytes] = no_store,
    ) -> None:
        self.slot = slot
        self.attempt = attempt
        self.clock = clock
        self.control_out: deque[protocol.FromWorker] = deque()
        self.peers: dict[int, protocol.Peer] = {}
        #: Peers that left in order: what they said last may still be under way.
        self._left: dict[int, protocol.Peer] = {}
        self.refused_messages = 0
        self.stopped = False
        self.failed = False
        self._around = Surroundings(
            slot, attempt, clock, send, context_of, node_peers, self.control_out, self._enter, self._of_process
        )
        self._deployment: Deployment | None = None
        #: Tasks of a deployment that was dropped, until the loop has ended their threads.
        self._dropped: list[Task] = []
        self._running = False
        #: Whether so much waits for the driver that no user code may run.
        self._driver_behind = False
        self._wakeup: Callable[[], None] | None = None
        #: How objects of a checkpoint's store are read.
        self._get = get_object
        #: Tasks of other workers that this one stands by for; read by a thread beside the loop.
        self.shadows = Shadows(get_object, self.control_out)
        #: Orders for a thread beside the loop, which answers by ``control_out``.
        self.merges: deque[protocol.MergeParts] = deque()
        #: The task whose code the loop runs outside of pieces of work: its ``open()``, key and grouping functions.
        self._current: Task | None = None
        #: The operator and task that are being built.
        self._building: tuple[str, int] | None = None
        #: Asked with every report how busy the machine was since the last one; set by whoever has one.
        self.machine_load: Callable[[], float] | None = None

    @property
    def tasks(self) -> list[Task]:
        """The tasks that were deployed here."""
        return [] if self._deployment is None else self._deployment.worker.tasks

    @property
    def deployment(self) -> Deployment:
        """What this worker was told to run; an error where it was not told yet."""
        if self._deployment is None:
            raise ProtocolError(
                "The coordinator gave an order to a worker before it had deployed it.",
                "Use the same version of Tailrace at the driver and on the executors.",
            )
        return self._deployment

    @property
    def lost_tuples(self) -> int:
        """Tuples on their way here that a broken connection took; their sources send them again."""
        return 0 if self._deployment is None else self._deployment.delivery.lost_tuples

    # -- what the coordinator says -------------------------------------------------------------------------------

    def on_control(self, message: protocol.FromCoordinator) -> None:
        """Act on one message of the coordinator."""
        match message:
            case protocol.Deploy():
                self._deploy(message)
            case protocol.Go():
                self._running = True
                self.deployment.worker.driver.send_restored()
            case protocol.PeerUp(peer=peer):
                known, self.peers[peer.slot] = self.peers.get(peer.slot), peer
                self.deployment.delivery.replaced(peer, known=known == peer)
                if self.deployment.uplink is not None:
                    self.deployment.uplink.meet(self.peers)
                self.control_out.append(protocol.PeerSeen(peer.slot, peer.attempt))
            case protocol.Resume(slot=slot, lost=lost):
                self.deployment.resume(slot, lost=lost)
            case (
                protocol.Pause() | protocol.Relocate() | protocol.GoOn() | protocol.Undo() | protocol.HoldSources()
                | protocol.PauseKeys() | protocol.Regroup() | protocol.Switch()
            ):  # fmt: skip
                self.deployment.operations.on_order(message)
            case protocol.Leave(slot=slot):
                self._leave(slot)
            case protocol.Beat(marks=marks):
                if self._deployment is not None:
                    self._deployment.low_water(marks)
            case protocol.AskAvailable(serial=serial):
                self.deployment.available.ask(serial)
            case protocol.Taken(serial=serial):
                self.deployment.acks.taken(serial)
            case protocol.Weights(edge=edge, weights=weights):
                for task in self.tasks:
                    if edge in task.outlets:
                        task.outlets[edge].reweigh(weights)
            case protocol.Refresh(lookup=name, version=version, table=table):
                lookup.install(name, version, codec.loads(table))
            case protocol.AskMarks(epoch=epoch):
                self.control_out.append(protocol.CutMarks(epoch, self.deployment.marks()))
            case (
                protocol.PrepareCut() | protocol.Cut() | protocol.EpochDurable()
                | protocol.HoldInput() | protocol.ReleaseInput()
            ):  # fmt: skip
                self.deployment.on_checkpoint(message)
            case protocol.Follow():
                self.shadows.follow(message, self.deployment.program)
            case protocol.MergeParts():
                self.merges.append(message)
            case protocol.AskState():
                self.deployment.answers.ask(message)
            case protocol.Drain():
                for _, source in self.deployment.worker.sources:
                    source.draining = True
            case protocol.Stop():
                self.stopped = True
                if self._running:
                    self.deployment.reporter.report()
            case _:
                raise ProtocolError(
                    f"The coordinator said {type(message).__name__}, which a worker that runs does not understand.",
                    "Use the same version of Tailrace at the driver and on the executors.",
                )

    def _deploy(self, message: protocol.Deploy) -> None:
        before = self._deployment
        if before is not None:
            self._running = False
            self._dropped += before.drop()
        self.peers = {peer.slot: peer for peer in message.peers}
        self._deployment = deployment = Deployment(self._around, message, self.peers, self._wakeup)
        self._building = None
        for task in deployment.worker.tasks:
            self._current = task
            try:
                task.chain.open()
            except Exception as error:  # noqa: BLE001 - a user's open() may raise anything
                return self.fail(call_error(task.chain.at.operator, task.index, "open()", error))
            finally:
                self._current = None
            deployment.begin_ticks(task)
        restored: dict[str, int] = {}
        if message.durability is not None:
            restored = deployment.restore(message.durability, before, self._get, self.shadows)
        deployment.low_water(message.marks)
        self.control_out.append(protocol.Deployed(restored, deployment.site.execution))
        return None

    def _enter(self, operator: str, task: int) -> None:
        """The code of an operator is about to run because its task is being built; no name: that is over."""
        self._building = (operator, task) if operator else None

    @property
    def at_hand(self) -> tuple[str, int] | None:
        """The operator and task whose code the loop runs outside of pieces of work, if it does; for other threads."""
        current = self._current
        return self._building if current is None else (current.chain.at.operator, current.index)

    def _leave(self, slot: int) -> None:
        """A worker without tasks leaves: forget it, or, if it is this one, end."""
        if slot == self.slot:
            self.stopped = True
        peer = self.peers.pop(slot, None)
        if peer is not None:
            self._left[slot] = peer
        if self._deployment is not None:
            self._deployment.worker.outgoing.hold(slot)

    def fail(self, error: BaseException) -> None:
        """Ask the coordinator to end the query; the first reason counts."""
        if not self.failed:
            self.failed = True
            message = getattr(error, "message", f"{type(error).__name__}: {error}\n{user_stack(error)}")
            hint = getattr(error, "hint", "")
            self.control_out.append(protocol.Failure(type(error).__name__, message, hint))

    # -- what the loop asks and brings ---------------------------------------------------------------------------

    def on_message(self, data: bytes | memoryview) -> None:
        """Take in a message of another worker, unless that worker has been replaced."""
        slot, attempt, frames = mail.opened(data)
        peer = self.peers.get(slot) or self._left.get(slot)
        deployment = self._deployment
        if peer is None or peer.attempt != attempt or deployment is None or not deployment.is_current(frames):
            self.refused_messages += 1
        else:
            deployment.delivery.receive(frames, slot)

    def on_reconnect(self, slot: int) -> None:
        """A broken connection to a living peer is back."""
        self.deployment.delivery.reconnected(slot)

    def to_driver(self, operator: str, task: int, values: Any) -> None:
        """Send a sink's values to the driver; this and ``log`` are the only methods here that any thread may call."""
        if self._deployment is not None:
            self._deployment.worker.driver.put(operator, task, values)

    def log(self, level: int, operator: str, task: int, text: str) -> None:
        """Send a line to the driver's log: what user code logs or prints, and what is told of it."""
        self.control_out.append(protocol.LogLine(level, operator, task, text[:LOG_CHARS_MAX]))

    def next_work(self) -> Work | None:
        """The next piece of user code to run; None when there is nothing to do."""
        deployment = self._deployment
        if not self._running or self.failed or self._driver_behind or deployment is None:
            return None
        return deployment.scheduler.next_work()

    def told_driver(self, waiting_bytes: int) -> None:
        """Take the loop's word on what the control connection has yet to carry; user code waits while it is too much.

        Twice what sinks may have under way: those are held back one by one before, and this is for floods of log lines.
        """
        deployment = self._deployment
        self._driver_behind = deployment is not None and waiting_bytes > 2 * deployment.worker.bounds.driver

    def finish(self, work: Work) -> None:
        """Take in the results of a piece of work: route its outputs, acknowledge its input."""
        task, deployment = work.task, self._deployment
        if task.dropped or deployment is None:
            return  # what it belongs to is no more
        task.in_flight -= 1
        task.pieces.remove(work)
        if work.error is None:
            task.account(work)
            self._current = task
            try:
                deployment.completion.settle(work)
            except Exception as error:  # noqa: BLE001 - a user's key or grouping function may raise anything
                work.error = grouping_error(work, deployment.program.plan, error)
            self._current = None
        if work.error is not None:
            self.fail(named_error(work))
            return
        if work.arrivals:
            deployment.delivery.finished(work.arrivals)
            if task.group is not None:
                task.group.done(work.arrivals)
            if deployment.measures:
                now_ns = self.clock.now_ns()
                for _, count, since_ns in work.arrivals:
                    task.latencies.add_many(now_ns - since_ns, count)
        if isinstance(work, CommitWork):
            deployment.transactions.committed(work)
        if deployment.cutter is not None and deployment.cutter.waits:
            deployment.cutter.returned(task)
        if task.is_read and not task.in_flight:
            deployment.answers.returned(task)
        deployment.scheduler.again(task)

    @property
    def writes(self) -> deque[PartWrite] | None:
        """Parts of checkpoints that wait to be written by someone who may wait; ``written`` tells what came of it."""
        cutter = None if self._deployment is None else self._deployment.cutter
        return None if cutter is None else cutter.writes

    def written(self, write: PartWrite, size_bytes: int, error: Exception | None) -> None:
        """A part was written, or could not be."""
        cutter = None if self._deployment is None else self._deployment.cutter
        if cutter is not None and write.execution == cutter.execution:
            cutter.written(write, size_bytes, error)

    def flush(self, *, idle: bool) -> None:
        """Send what is due: all of it when there is nothing else to do, else full and waiting outboxes."""
        deployment = self._deployment
        if self._running and deployment is not None:
            if deployment.operations.active:
                deployment.operations.progress()
            if deployment.cutter is not None and deployment.cutter.active:
                deployment.cutter.progress()
            if deployment.input_hold.active:
                deployment.input_hold.progress()
            deployment.delivery.flush(idle=idle)

    @property
    def has_ready(self) -> bool:
        """Whether a task has something waiting."""
        return self._running and self._deployment is not None and self._deployment.scheduler.has_ready

    def wait_us(self) -> int:
        """How long nothing will be due, in microseconds, if no message comes."""
        deployment = self._deployment
        if not self._running or deployment is None:
            return IDLE_US
        wait_us = 0 if deployment.cutter is not None and deployment.cutter.active else deployment.operations.wait_us
        if not wait_us:
            return 0
        if self._driver_behind:
            return HELD_US
        wait_us = min(wait_us, deployment.scheduler.wait_us())
        if (late_ns := self.late_ns) is not None:
            wait_us = min(wait_us, max(0, late_ns - self.clock.now_ns()) // 1000)
        return wait_us

    @property
    def patient(self) -> bool:
        """Whether acks need not wake the loop from the sleep that ``wait_us`` named."""
        return self._running and self._deployment is not None and self._deployment.scheduler.patient

    def on_time(self) -> None:
        """Do what the clock asks for: send overdue roots again, report."""
        deployment = self._deployment
        if not self._running or deployment is None:
            return
        now_ns = self.clock.now_ns()
        deployment.replay_timer.look(now_ns)
        deployment.available.look()
        deployment.reporter.on_time(now_ns)

    @property
    def late_ns(self) -> int | None:
        """When ``on_time`` must be asked, where that cannot wait for the loop's housekeeping."""
        deployment = self._deployment
        return None if deployment is None or not deployment.replay_timer.pressing else deployment.replay_timer.due_ns

    def wake_with(self, wakeup: Callable[[], None]) -> None:
        """Let readers that are fed by other threads wake the loop."""
        self._wakeup = wakeup
        if self._deployment is not None:
            self._deployment.wake_with(wakeup)

    def validate(self) -> None:
        """Check what must always hold between two calls; raises ``InvariantError`` with what does not."""
        if self._deployment is not None and not self.failed:
            self._deployment.invariants.check()

    def _of_process(self) -> ProcessReport:
        """What a report says of the worker as a whole."""
        load = 0.0 if self.machine_load is None else self.machine_load()
        return ProcessReport(load, self.refused_messages, self.lost_tuples)

    def moved_away(self) -> list[Task]:
        """Tasks that left since the last time: the loop ends the threads they had."""
        gone, self._dropped = self._dropped, []
        return gone if self._deployment is None else gone + self._deployment.operations.gone()

    def close(self, besides: Container[Task] = ()) -> None:
        """Let go of what user code holds open, when the query ends without draining; what it still gives is dropped.

        Tasks ``besides`` have code that still runs, and are left alone.
        """
        for task in self.tasks:
            if task not in besides:
                self._current = task
                close_task(task, self.log, self.fail)
                close_states(task)
        self._current = None
