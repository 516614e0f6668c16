"""The tasks of one stage on one node: they take tuples from their inbox one at a time and work on each for a while.

They wait in the runtime's own inboxes, each as a batch of one value. ``engine`` makes the groups and is told of every
tuple that is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.batch import Batch, numbers
from tailrace.receiving.inbox import Channel, Inbox
from tailrace.receiving.shared_inbox import SharedInbox

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tailrace.receiving.inbox import Arrival

    from .agenda import Agenda
    from .model import StageModel
    from .pace import NodeSpeed
    from .routes import Edge

_NS_PER_US = 1000
#: The heads of a batch in which nothing is tracked; tuples are taken singly, so it stays empty.
_UNTRACKED = numbers()


class Attempt:
    """One incarnation of a root: how many of its tuples are still under way."""

    __slots__ = ("incarnation", "pending", "root")

    def __init__(self, root: Any, incarnation: int) -> None:
        self.root = root
        self.incarnation = incarnation
        self.pending = 0


class Item:
    """A tuple on its way to a task."""

    __slots__ = ("arrivals", "attempt", "bytes", "dest", "edge", "key", "lineage", "sender", "since_ns", "task")

    def __init__(self, attempt: Attempt, edge: Edge, sender: int, dest: int, lineage: int, key: int, size: int) -> None:
        self.attempt = attempt
        self.edge = edge
        self.sender = sender
        self.dest = dest
        #: Where it was sent; whoever takes it from a shared queue, later.
        self.task = edge.targets[dest]
        self.lineage = lineage
        self.key = key
        self.bytes = size
        self.since_ns = 0
        #: The claim of whoever works on it.
        self.arrivals: list[Arrival] = []


class TaskServer:
    """One server. Counts are totals; ``engine`` takes differences."""

    __slots__ = ("busy_ns", "done", "group", "idle", "index", "latency_ns", "node", "seat", "stage", "waited_ns")

    def __init__(self, stage: StageModel, index: int, node: int) -> None:
        self.stage = stage
        self.index = index
        self.node = node
        self.seat = 0
        self.idle = True
        self.done = 0
        self.busy_ns = 0
        self.waited_ns = 0
        self.latency_ns = 0
        self.group: TaskGroup


class TaskGroup:
    """The tasks of a stage on a node, and where their tuples wait."""

    def __init__(
        self,
        tasks: list[TaskServer],
        pace: NodeSpeed,
        random: Random,
        agenda: Agenda,
        on_done: Callable[[TaskServer, Item], None],
    ) -> None:
        self.tasks = tasks
        self._pace = pace
        self._random = random
        self._agenda = agenda
        self._on_done = on_done
        self._draw = tasks[0].stage.service_us.draw
        #: As which senders are known to an inbox: one for each task, which is where the tuple was sent.
        self._channels = [Channel(seat, slot=0, window=1) for seat in range(len(tasks))]
        #: Where each task takes from; the same one for all where they share.
        self._inboxes: list[Inbox | SharedInbox] = [Inbox({each.id: each}) for each in self._channels]
        for seat, task in enumerate(tasks):
            task.seat = seat
            task.group = self

    @property
    def shared(self) -> bool:
        """Whether the tasks take from one inbox."""
        return isinstance(self._inboxes[0], SharedInbox)

    def share(self, shared: bool) -> None:
        """Change over from own inboxes to one, or back; what waits is handed over in order of arrival."""
        if shared == self.shared:
            return
        waiting = [item for inbox in dict.fromkeys(self._inboxes) for item in inbox.leave()]
        if shared:
            one = SharedInbox({each.id: each for each in self._channels})
            one.adopt(waiting)
            self._inboxes = [one] * len(self.tasks)
        else:
            own = [Inbox({each.id: each}) for each in self._channels]
            for channel, batch, since_ns in waiting:
                own[channel.id].adopt(channel, batch, since_ns)
            self._inboxes = [*own]
        for task in self.tasks:
            if task.idle:
                self._begin(task)

    def arrive(self, item: Item) -> None:
        """Let a tuple wait, or begin with it at once."""
        item.since_ns = self._agenda.now_ns
        task = item.task
        self._inboxes[task.seat].put(self._channels[task.seat], Batch([item], None, _UNTRACKED), item.since_ns)
        if task.idle:
            self._begin(task)
        elif self.shared:
            free = next((each for each in self.tasks if each.idle), None)
            if free is not None:
                self._begin(free)

    def _begin(self, task: TaskServer) -> None:
        inbox = self._inboxes[task.seat]
        if not inbox.waiting:
            task.idle = True
            return
        task.idle = False
        arrivals, batch = inbox.take(1)
        item: Item = batch.values[0]
        item.arrivals = arrivals
        now_ns = self._agenda.now_ns
        item.task = task
        task.waited_ns += now_ns - item.since_ns
        end_ns = self._pace.done_ns(now_ns, self._draw(self._random) * _NS_PER_US)
        task.busy_ns += end_ns - now_ns
        self._agenda.at(end_ns, self._end, item)

    def _end(self, item: Item) -> None:
        task = item.task
        task.done += 1
        task.latency_ns += self._agenda.now_ns - item.since_ns
        inbox = self._inboxes[task.seat]
        if isinstance(inbox, SharedInbox):
            inbox.done(item.arrivals)
        self._on_done(task, item)
        self._begin(task)

    def waiting(self, task: TaskServer) -> int:
        """Tuples that wait where this task takes from, and the one it works on."""
        return len(self._inboxes[task.seat]) + (not task.idle)
