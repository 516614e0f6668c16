"""The deployed half of a worker: its tasks and all the parts that move tuples between them, built whole from one order.

The brain makes one from every ``Deploy`` and holds it. Nothing is attached to it afterwards, and nothing of it lives
outside, so a worker can go back to an earlier time by making another and dropping this one.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from tailrace import protocol
from tailrace.transport import codec
from tailrace.worker.availability import Availability
from tailrace.worker.build import Site
from tailrace.worker.checkpoint.cutter import Cutter, KeptCut
from tailrace.worker.checkpoint.holding import InputHold
from tailrace.worker.checkpoint.restore import restore_from_memory, restore_from_store
from tailrace.worker.checkpoint.transactions import Transactions
from tailrace.worker.exchange.acks import Acknowledger
from tailrace.worker.exchange.delivery import Delivery
from tailrace.worker.exchange.nearness import Nearness
from tailrace.worker.exchange.sharing import make_groups
from tailrace.worker.execution.completion import Completion
from tailrace.worker.execution.replay_timer import ReplayTimer
from tailrace.worker.execution.scheduler import Scheduler
from tailrace.worker.execution.state_answers import StateAnswers
from tailrace.worker.invariants import WorkerInvariants
from tailrace.worker.operations.channel_control import ChannelControl
from tailrace.worker.operations.operations import Operations
from tailrace.worker.operations.participant import Scope
from tailrace.worker.operations.policy_switch import PresentPolicy
from tailrace.worker.reporter import Reporter
from tailrace.worker.uplink.link import open_uplink
from tailrace.worker.worker_state import WorkerState

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from tailrace.checkpoint.part import TaskPart
    from tailrace.clock import Clock
    from tailrace.program.program import Program
    from tailrace.reports import ProcessReport
    from tailrace.topology.operators import OperatorSpec, TaskContext
    from tailrace.transport.message_codec import Opened
    from tailrace.worker.checkpoint.shadows import Shadows
    from tailrace.worker.execution.task import Task
    from tailrace.worker.uplink.link import Meets

_NS_PER_S = 1_000_000_000


class Surroundings:
    """What a worker has whatever it is told to run: who it is, its clock, and the ways out of it."""

    def __init__(
        self,
        slot: int,
        attempt: int,
        clock: Clock,
        send: Callable[[int, bytes], bool],
        context_of: Callable[[OperatorSpec, int, int], TaskContext],
        node_peers: Meets | None,
        control_out: deque[protocol.FromWorker],
        enter: Callable[[str, int], None],
        of_process: Callable[[], ProcessReport],
    ) -> None:
        self.slot = slot
        self.attempt = attempt
        self.clock = clock
        self.send = send
        self.context_of = context_of
        #: Who stands behind the same limited uplink; None where there is none.
        self.node_peers = node_peers
        #: Messages for the coordinator.
        self.control_out = control_out
        #: Told whose code is about to run while tasks are built.
        self.enter = enter
        #: What a report says of the worker as a whole.
        self.of_process = of_process
        #: Counts the worker's reports, of whichever deployment.
        self.report_numbers = count(1)


class Deployment:
    """The tasks of one worker and what serves them."""

    def __init__(
        self,
        around: Surroundings,
        order: protocol.Deploy,
        peers: dict[int, protocol.Peer],
        wakeup: Callable[[], None] | None,
    ) -> None:
        program: Program = codec.loads(order.program)
        nearness = Nearness(program, order.origins, peers)
        site = Site(
            around.slot, around.attempt, order.placement, order.partitions, around.clock, around.context_of,
            nearness.rows(order.placement), order.queues, order.tables, around.enter,
            order.durability,
        )  # fmt: skip
        self.program = program
        self.site = site
        self._wakeup = wakeup
        # Balancing goes by the latencies of tasks.
        by_latency = program.policy.routing in {"latency", "shortest_delay"} or "routing" in program.switched
        #: Whether the time that tuples take is measured.
        self.measures = program.settings.metrics or by_latency
        self.worker = worker = WorkerState(program, site, around.send, around.control_out)
        self.acks = Acknowledger(worker, order.partitions, order.placement)
        self.uplink = open_uplink(worker, around.node_peers, peers)
        self.channels = ChannelControl(worker, self.uplink)
        self.delivery = Delivery(worker, self.acks, self.uplink, self.channels)
        make_groups(worker, site, self.delivery)
        self.completion = Completion(worker, self.acks)
        self.replay_timer = ReplayTimer(worker, self.completion)
        self.policies = PresentPolicy(worker, self.delivery, self.replay_timer)
        self.scheduler = Scheduler(worker, self.delivery, self.completion, self.acks)
        self.operations = Operations(
            Scope(
                worker, site, self.acks, self.delivery, self.channels, nearness, self.policies, self._tasks_changed,
                self._adopt,
            )
        )  # fmt: skip
        self.available = Availability(worker)
        self.answers = StateAnswers(worker, program.settings.frame_bytes_max)
        self.reporter = Reporter(worker, self.uplink, self.operations, peers, around.of_process, around.report_numbers)
        self.transactions = Transactions(worker)
        #: Cuts the tasks for checkpoints, where the query has some.
        self.cutter = None if order.durability is None else Cutter(worker, order.durability, self.transactions)
        self.input_hold = InputHold(worker)
        self.invariants = WorkerInvariants(worker, site, self.operations, self.cutter)
        self._tasks_changed()

    def begin_ticks(self, task: Task) -> None:
        """A task was opened: from now on its operators are given ticks, if they want any."""
        if (every_s := task.chain.tick_every_s) is not None:
            task.next_tick_ns = self.worker.clock.now_ns() + int(every_s * _NS_PER_S)

    def _tasks_changed(self) -> None:
        """Look at the tasks again: they were deployed, or some have moved."""
        self.scheduler.refresh()
        self.replay_timer.refresh()
        self.policies.refresh()
        self.reporter.refresh()
        if self._wakeup is not None:
            self.wake_with(self._wakeup)

    def _adopt(self, task: Task) -> None:
        """A task has come from another worker with its state."""
        if self.cutter is not None:
            self.cutter.adopt(task)

    def wake_with(self, wakeup: Callable[[], None]) -> None:
        """Let readers that are fed by other threads wake the loop."""
        self._wakeup = wakeup
        for _, source in self.worker.sources:
            for reader in source.readers.values():
                reader.wakeup = wakeup

    def low_water(self, marks: dict[int, int]) -> None:
        """Below these offsets everything is complete: deduplicators may forget, unless they do so by cuts."""
        if self.cutter is not None:
            return
        for task in self.worker.tasks:
            if task.deduplicator is not None:
                for partition, offset in marks.items():
                    task.deduplicator.low_water(partition, offset)

    def marks(self) -> dict[int, int]:
        """Per partition the offset below which everything is complete."""
        marks: dict[int, int] = {}
        for _, source in self.worker.sources:
            marks |= source.ledger.low_water()
        for task in self.worker.tasks:
            if task.own is not None:
                marks |= task.own.ledger.low_water()
        return marks

    def on_checkpoint(
        self,
        order: (
            protocol.PrepareCut | protocol.Cut | protocol.EpochDurable | protocol.HoldInput | protocol.ReleaseInput
        ),
    ) -> None:
        """Act on what the coordinator says about an epoch."""
        cutter = self.cutter
        if cutter is None:
            return
        match order:
            case protocol.HoldInput(epoch=epoch):
                self.input_hold.hold(epoch)
            case protocol.ReleaseInput():
                self.input_hold.release()
            case protocol.PrepareCut():
                cutter.prepare(order)
            case protocol.Cut(epoch=epoch):
                cutter.reach(epoch)
            case protocol.EpochDurable(epoch=epoch):
                cutter.durable(epoch)
                self.transactions.durable(epoch)

    def is_current(self, frames: list[Opened]) -> bool:
        """Whether a message is of this deployment; one of a later epoch has the tasks cut first."""
        return self.cutter is None or self.cutter.is_current(frames)

    def restore(
        self, order: protocol.Durability, before: Deployment | None, get: Callable[[str], bytes], shadows: Shadows
    ) -> dict[str, int]:
        """Let the tasks go on as of a cut, where there was one, and be ready for the next.

        Tells how many did so by what they kept in memory, by a shadow, and from the store.
        """
        restored = {"memory": 0, "standby": 0, "store": 0}
        parts: dict[tuple[int, int], tuple[Task, TaskPart]] = {}
        cutter = None if before is None else before.cutter
        kept = None if cutter is None else cutter.kept.get(order.epoch)
        objects = {(stage, index): names for stage, index, names in order.objects}
        for task in self.worker.tasks if order.epoch else ():
            if task.deduplicator is None:
                continue
            ident, way = (task.stage.id, task.index), "memory"
            part = None if kept is None else restore_from_memory(task, kept, order.epoch, self.worker)
            if part is None:
                shadow = shadows.take(*ident, objects[ident])
                part = restore_from_store(task, objects[ident], get, self.worker, shadow)
                way = "store" if shadow is None else "standby"
            restored[way] += 1
            if part is not None:
                parts[ident] = (task, part)
        for _, source in self.worker.sources:
            next_offsets = source.ledger.next_offsets()
            source.owed = {
                partition: offset
                for partition, offset in order.offsets.items()
                if partition in source.readers and next_offsets.get(partition, 0) < offset
            }
        if self.cutter is not None:
            self.cutter.begin(KeptCut({}, parts))
            self.transactions.begin(order.epoch)
        return restored

    def resume(self, slot: int, *, lost: bool) -> None:
        """A slot's new worker is open: send to it, and send every open root again where something was lost."""
        self.worker.outgoing.release(slot)
        for group in self.worker.groups.values():
            group.wake()
        for task, source in self.worker.sources if lost else ():
            self.completion.replay(task, source, source.ledger.everything(), lost=True)

    def drop(self) -> list[Task]:
        """Make way for another deployment: read nothing more. Gives the tasks, whose threads the loop ends.

        Pieces of their work that are still out come back to nobody.
        """
        for task in self.worker.tasks:
            task.dropped = True
            for reader in task.source.readers.values() if task.source is not None else ():
                reader.close()
        return list(self.worker.tasks)
