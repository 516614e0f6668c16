"""The brain of a worker: messages and finished work in, messages and work out. No sockets, no threads, no own clock.

The loop (real or simulated) feeds it and carries out what it says:

    on_control(msg)   what the coordinator said           ->  ``control_out`` holds the answers
    on_message(data)  what another worker sent
    next_work()       the next piece of user code to run  ->  finish(work) brings its results back
    flush()           send what waits; ``send(slot, bytes)`` was passed in and says whether there was room
    wait_us()         how long the loop may sleep

Its parts: ``delivery`` moves tuples, ``scheduler`` picks work, ``completion`` takes results in, ``acks`` acknowledges,
``replay_timer`` sends again, ``reporter`` reports.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from tailrace import protocol
from tailrace.connect import lookup
from tailrace.transport import codec
from tailrace.transport import message_codec as mail
from tailrace.worker.exchange.acks import Acknowledger
from tailrace.worker.exchange.delivery import Delivery
from tailrace.worker.exchange.nearness import Nearness
from tailrace.worker.execution.completion import Completion
from tailrace.worker.execution.replay_timer import ReplayTimer
from tailrace.worker.execution.scheduler import HELD_US, IDLE_US, Scheduler
from tailrace.worker.migration.channel_control import ChannelControl
from tailrace.worker.migration.key_mover import LOOK_US, KeyMover
from tailrace.worker.migration.mover import Mover
from tailrace.worker.reporter import Reporter
from tailrace.worker.uplink.link import open_uplink
from tailrace.worker.worker_state import WorkerState

from .availability import Availability
from .blame import call_error, grouping_error, named_error
from .build import Site
from .ending import close_task
from .errors import ProtocolError, user_stack
from .switching import Switching

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from tailrace.clock import Clock
    from tailrace.topology.operators import OperatorSpec, TaskContext
    from tailrace.worker.execution.task import Task, Work
    from tailrace.worker.uplink.link import Meets

    from .build import Program

_NS_PER_S = 1_000_000_000
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
    ) -> None:
        self.slot = slot
        self.attempt = attempt
        self.clock = clock
        self.control_out: deque[protocol.FromWorker] = deque()
        self.peers: dict[int, protocol.Peer] = {}
        self.refused_messages = 0
        self.stopped = False
        self.failed = False
        self._send = send
        self._context_of = context_of
        #: Who stands behind the same limited uplink; None where there is none.
        self._node_peers = node_peers
        self._worker: WorkerState | None = None
        self._running = False
        self._replay_timer: ReplayTimer | None = None
        self._measures = True
        #: Whether so much waits for the driver that no user code may run.
        self._driver_behind = False
        self._bell: Callable[[], None] | None = None
        #: The task whose code the loop runs outside of pieces of work: its ``open()``, key and grouping functions.
        self._current: Task | None = None
        #: The operator and task that are being built.
        self._building: tuple[str, int] | None = None
        #: Asked with every report how busy the machine was since the last one; set by whoever has one.
        self.machine_load: Callable[[], float] | None = None

    @property
    def tasks(self) -> list[Task]:
        """The tasks that were deployed here."""
        return [] if self._worker is None else self._worker.tasks

    @property
    def lost_tuples(self) -> int:
        """Tuples on their way here that a broken connection took; their sources send them again."""
        return 0 if self._worker is None else self._delivery.lost_tuples

    # -- what the coordinator says -------------------------------------------------------------------------------

    def on_control(self, message: protocol.FromCoordinator) -> None:
        """Act on one message of the coordinator."""
        match message:
            case protocol.Deploy():
                self._deploy(message)
            case protocol.Go():
                self._running = True
            case protocol.PeerUp(peer=peer):
                known, self.peers[peer.slot] = self.peers.get(peer.slot), peer
                self._delivery.replaced(peer, known=known == peer)
                if self._delivery.uplink is not None:
                    self._delivery.uplink.meet(self.peers)
                self.control_out.append(protocol.PeerSeen(peer.slot, peer.attempt))
            case protocol.Resume(slot=slot, lost=lost):
                self._resume(slot, lost=lost)
            case protocol.Pause():
                self._mover.pause(message)
            case protocol.Relocate():
                self._mover.switch(message)
            case protocol.GoOn():
                self._mover.go_on()
                self._keys.go_on()
            case protocol.Undo():
                self._mover.undo(message)
                self._keys.undo(message.epoch)
            case protocol.HoldSources() | protocol.PauseKeys() | protocol.Regroup():
                self._keys.on_order(message)
            case protocol.Leave(slot=slot):
                self._leave(slot)
            case protocol.Beat(marks=marks):
                self._beat(marks)
            case protocol.AskAvailable(serial=serial):
                self._available.ask(serial)
            case protocol.Taken(serial=serial):
                self._acks.taken(serial)
            case protocol.Weights(edge=edge, weights=weights):
                for task in self.tasks:
                    if edge in task.outlets:
                        task.outlets[edge].reweigh(weights)
            case protocol.Switch():
                self._switching.apply(message)
            case protocol.Refresh(lookup=name, version=version, table=table):
                lookup.install(name, version, codec.loads(table))
            case protocol.Drain():
                for _, source in self._worker.sources if self._worker is not None else ():
                    source.draining = True
            case protocol.Stop():
                self.stopped = True
                if self._running:
                    self._reporter.report()
            case _:
                raise ProtocolError(
                    f"The coordinator said {type(message).__name__}, which a worker that runs does not understand.",
                    "Use the same version of Tailrace at the driver and on the executors.",
                )

    def _deploy(self, message: protocol.Deploy) -> None:
        program: Program = codec.loads(message.program)
        self.peers = {peer.slot: peer for peer in message.peers}
        nearness = Nearness(program, message.homes, self.peers)
        site = Site(
            self.slot, self.attempt, message.placement, message.partitions, self.clock, self._context_of,
            nearness.rows(message.placement), message.queues, message.tables, self._enter,
        )  # fmt: skip
        self.program = program
        self._worker = worker = WorkerState(program, site, self._send, self.control_out)
        # Balancing goes by the latencies of tasks.
        by_latency = program.policy.routing in {"latency", "shortest_delay"} or "routing" in program.switched
        self._measures = program.settings.metrics or by_latency
        self._acks = Acknowledger(worker, message.partitions, message.placement)
        self._delivery = Delivery(worker, self._acks)
        self._delivery.uplink = open_uplink(worker, self._node_peers, self.peers)
        self._completion = Completion(worker, self._acks)
        self._replay_timer = ReplayTimer(worker, self._completion)
        self._switching = Switching(worker, self._delivery, self._replay_timer)
        self._scheduler = Scheduler(worker, self._delivery, self._completion, self._acks)
        ways = ChannelControl(worker, site, self._delivery, nearness)
        self._mover = self._delivery.mover = Mover(worker, site, self._acks, ways, self._tasks_changed)
        self._keys = self._delivery.keys = KeyMover(worker, site, self._acks, self._delivery, ways)
        self._available = Availability(worker)
        self._reporter = Reporter(worker, self._delivery, self._keys, self.peers, self._of_worker)
        self._building = None
        for task in worker.tasks:
            self._current = task
            try:
                task.chain.open()
            except Exception as error:  # noqa: BLE001 - a user's open() may raise anything
                return self.fail(call_error(task.chain.at.operator, task.index, "open()", error))
            finally:
                self._current = None
            if (every_s := task.chain.tick_every_s) is not None:
                task.next_tick_ns = self.clock.now_ns() + int(every_s * _NS_PER_S)
        self._tasks_changed()
        self._beat(message.marks)
        self.control_out.append(protocol.Deployed())
        return None

    def _enter(self, operator: str, task: int) -> None:
        """The code of an operator is about to run because its task is being built; no name: that is over."""
        self._building = (operator, task) if operator else None

    @property
    def at_hand(self) -> tuple[str, int] | None:
        """The operator and task whose code the loop runs outside of pieces of work, if it does; for other threads."""
        current = self._current
        return self._building if current is None else (current.chain.at.operator, current.index)

    def _tasks_changed(self) -> None:
        """Look at the tasks again: they were deployed, or some have moved."""
        if self._worker is None or self._replay_timer is None:
            return
        self._scheduler.refresh()
        self._replay_timer.refresh()
        self._switching.refresh()
        self._reporter.refresh()
        if self._bell is not None:
            self.ring_with(self._bell)

    def _leave(self, slot: int) -> None:
        """A worker without tasks leaves: forget it, or, if it is this one, end."""
        if slot == self.slot:
            self.stopped = True
        self.peers.pop(slot, None)
        if self._worker is not None:
            self._worker.outgoing.hold(slot)

    def _resume(self, slot: int, *, lost: bool) -> None:
        """A slot's new worker is open: send to it, and send every open root again where something was lost."""
        if self._worker is None:
            return
        self._worker.outgoing.release(slot)
        for group in self._worker.groups.values():
            group.wake()
        if not lost:
            return
        for task, source in self._worker.sources:
            self._completion.replay(task, source, source.ledger.everything(), lost=True)

    def _beat(self, marks: dict[int, int]) -> None:
        for task in self.tasks:
            if task.deduplicator is not None:
                for partition, offset in marks.items():
                    task.deduplicator.low_water(partition, offset)

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
        peer = self.peers.get(slot)
        if peer is None or peer.attempt != attempt:
            self.refused_messages += 1
        else:
            self._delivery.receive(frames, slot)

    def on_reconnect(self, slot: int) -> None:
        """A broken connection to a living peer is back."""
        self._delivery.reconnected(slot)

    def to_driver(self, operator: str, task: int, values: Any) -> None:
        """Send a sink's values to the driver; this and ``log`` are the only methods here that any thread may call."""
        if self._worker is not None:
            self._worker.driver.put(operator, task, values)

    def log(self, level: int, operator: str, task: int, text: str) -> None:
        """Send a line to the driver's log: what user code logs or prints, and what is told of it."""
        self.control_out.append(protocol.LogLine(level, operator, task, text[:LOG_CHARS_MAX]))

    def next_work(self) -> Work | None:
        """The next piece of user code to run; None when there is nothing to do."""
        if not self._running or self.failed or self._driver_behind:
            return None
        return self._scheduler.next_work()

    def told_driver(self, waiting_bytes: int) -> None:
        """Take the loop's word on what the control connection has yet to carry; user code waits while it is too much.

        Twice what sinks may have under way: those are held back one by one before, and this is for floods of log lines.
        """
        self._driver_behind = self._worker is not None and waiting_bytes > 2 * self._worker.bounds.driver

    def finish(self, work: Work) -> None:
        """Take in the results of a piece of work: route its outputs, acknowledge its input."""
        task = work.task
        task.in_flight -= 1
        task.pieces.remove(work)
        if work.error is None:
            task.account(work)
            self._current = task
            try:
                self._completion.settle(work)
            except Exception as error:  # noqa: BLE001 - a user's key or grouping function may raise anything
                work.error = grouping_error(work, self.program.plan, error)
            self._current = None
        if work.error is not None:
            self.fail(named_error(work))
            return
        if work.arrivals:
            self._delivery.finished(work.arrivals)
            if task.group is not None:
                task.group.done(work.arrivals)
            if self._measures:
                now_ns = self.clock.now_ns()
                for _, count, since_ns in work.arrivals:
                    task.latencies.add_many(now_ns - since_ns, count)
        self._scheduler.again(task)

    def flush(self, *, idle: bool) -> None:
        """Send what is due: all of it when there is nothing else to do, else full and waiting outboxes."""
        if self._running:
            if self._mover.active:
                self._mover.progress()
            if self._keys.active:
                self._keys.progress()
            self._delivery.flush(idle=idle)

    @property
    def has_ready(self) -> bool:
        """Whether a task has something waiting."""
        return self._running and self._scheduler.has_ready

    def wait_us(self) -> int:
        """How long nothing will be due, in microseconds, if no message comes."""
        if not self._running:
            return IDLE_US
        if self._mover.sending:
            return 0
        if self._driver_behind:
            return HELD_US
        wait_us = min(self._scheduler.wait_us(), LOOK_US if self._keys.active else IDLE_US)
        if (late_ns := self.late_ns) is not None:
            wait_us = min(wait_us, max(0, late_ns - self.clock.now_ns()) // 1000)
        return wait_us

    @property
    def patient(self) -> bool:
        """Whether acks need not wake the loop from the sleep that ``wait_us`` named."""
        return self._running and self._scheduler.patient

    def on_time(self) -> None:
        """Do what the clock asks for: send overdue roots again, report."""
        if not self._running or self._replay_timer is None:
            return
        now_ns = self.clock.now_ns()
        self._replay_timer.look(now_ns)
        self._available.look()
        self._reporter.on_time(now_ns)

    @property
    def late_ns(self) -> int | None:
        """When ``on_time`` must be asked, where that cannot wait for the loop's housekeeping."""
        return self._replay_timer.due_ns if self._replay_timer is not None and self._replay_timer.pressing else None

    def ring_with(self, bell: Callable[[], None]) -> None:
        """Let readers that are fed by other threads wake the loop."""
        self._bell = bell
        for _, source in self._worker.sources if self._worker is not None else ():
            for reader in source.readers.values():
                reader.bell = bell

    def _of_worker(self) -> dict[str, Any]:
        """What a report says of the worker as a whole."""
        machine = {} if self.machine_load is None else {"machine": self.machine_load()}
        return machine | {"refused_messages": self.refused_messages, "lost_tuples": self.lost_tuples}

    def moved_away(self) -> list[Task]:
        """Tasks that left since the last time: the loop ends the threads they had."""
        gone: list[Task] = []
        while self._worker is not None and self._mover.gone:
            gone.append(self._mover.gone.popleft())
        return gone

    def close(self, besides: Container[Task] = ()) -> None:
        """Let go of what user code holds open, when the query ends without draining; what it still gives is dropped.

        Tasks ``besides`` have code that still runs, and are left alone.
        """
        for task in self.tasks:
            if task not in besides:
                self._current = task
                close_task(task, self.log, self.fail)
        self._current = None
