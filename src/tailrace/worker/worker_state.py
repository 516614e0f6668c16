"""What the parts of a worker's brain share: its tasks, the channels in and out, what waits to be run and to be sent.

Made when the coordinator deploys. Plain state with the two moves that every part makes; no decision is taken here.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from tailrace.worker.build import Site, build_tasks
from tailrace.worker.exchange.control_items import ControlItems
from tailrace.worker.exchange.driver_queue import DriverQueue
from tailrace.worker.exchange.outgoing import OutgoingBuffer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace import protocol
    from tailrace.clock import Clock
    from tailrace.program.program import Program
    from tailrace.receiving.inbox import Channel
    from tailrace.sending.outbox import Outbox
    from tailrace.worker.exchange.shared_queues import Group
    from tailrace.worker.execution.own_roots import OwnRoots
    from tailrace.worker.execution.task import SourceSide, Task


class WorkerState:
    """The tasks of one worker and the state between them."""

    def __init__(
        self, program: Program, site: Site, send: Callable[[int, bytes], bool], control: deque[protocol.FromWorker]
    ) -> None:
        settings = program.settings
        self.program = program
        self.slot = site.slot
        self.attempt = site.attempt
        self.clock: Clock = site.clock
        #: Messages for the coordinator.
        self.control_out = control
        self.bounds = site.bounds(program)
        self.driver = DriverQueue(control, self.bounds.driver, settings.frame_bytes_max, site.execution)
        self.outgoing = OutgoingBuffer(site.slot, site.attempt, send, settings.batch_max, settings.frame_bytes_max)
        #: Whether no tick and no end is begun: all comes to rest for a savepoint, or keys are to be cut another way.
        self.held = False
        self.control = ControlItems(site.slot, self.outgoing)
        self.tasks = build_tasks(program, site)
        self.sources: list[tuple[Task, SourceSide]] = [
            (task, task.source) for task in self.tasks if task.source is not None
        ]
        self.inbound: dict[int, tuple[Task, Channel]] = {
            number: (task, channel)
            for task in self.tasks
            if task.inbox is not None
            for number, channel in task.inbox.channels.items()
        }
        self.outbound: dict[int, Outbox] = {box.channel: box for task in self.tasks for box in task.boxes}
        #: Per stage, the tasks that take from one queue.
        self.groups: dict[int, Group] = {}
        #: Tasks that may have something to do, each once, in turn.
        self.ready: deque[Task] = deque()
        #: Outboxes that have something to send, oldest first.
        self.dirty: dict[Outbox, None] = {}

    def add(self, task: Task) -> None:
        """Take a task in that comes from another worker."""
        self.tasks.append(task)
        if task.source is not None:
            self.sources.append((task, task.source))
        if task.inbox is not None:
            self.inbound |= {number: (task, channel) for number, channel in task.inbox.channels.items()}
        self.outbound |= {box.channel: box for box in task.boxes}

    def remove(self, task: Task) -> None:
        """Let a task go that runs in another worker from now on."""
        self.tasks.remove(task)
        self.sources = [each for each in self.sources if each[0] is not task]
        for number in task.inbox.channels if task.inbox is not None else ():
            del self.inbound[number]
        for box in task.boxes:
            del self.outbound[box.channel]
            self.dirty.pop(box, None)

    def freeze(self, task: Task) -> None:
        """Give a task no more turns: one that counts as queued is not queued again."""
        if task.queued and task in self.ready:
            self.ready.remove(task)
        task.queued = True

    def thaw(self, task: Task) -> None:
        """Let a task that was frozen go on."""
        task.queued = False
        if task.has_more:
            self.enqueue(task)
        for box in task.boxes:
            if box.values or box.ended:
                self.dirty[box] = None

    @property
    def owns(self) -> list[OwnRoots]:
        """The roots of tasks that emit something by themselves, where they make roots of it."""
        return [task.own for task in self.tasks if task.own is not None]

    def let_end(self) -> None:
        """Begin ticks and ends again."""
        self.held = False
        for task in self.tasks:
            if task.inbox is not None and task.inbox.has_more:
                self.enqueue(task)

    def enqueue(self, task: Task) -> None:
        """Let a task have a turn."""
        if not task.queued:
            task.queued = True
            self.ready.append(task)

    def task_of(self, box: Outbox) -> Task:
        """The task whose tuples an outbox holds; of what is handed out of a shared queue, one that takes from it."""
        handing_out = [
            (group.members[0], consumer.box) for group in self.groups.values() for consumer in group.consumers
        ]
        sending = [(task, each) for task in self.tasks for each in task.boxes]
        return next(task for task, each in sending + handing_out if each is box)

    def mark_dirty(self, task: Task) -> None:
        """Note which of a task's outboxes have something to send, and since when."""
        for box in task.boxes:
            if box.values and box not in self.dirty:
                box.since_ns = self.clock.now_ns()
                self.dirty[box] = None
