"""The tasks of one stage on one node: they take tuples from their inbox one at a time and work on each for a while.

The order in which waiting tuples are taken is that of the runtime's ``receiving`` disciplines. ``engine`` makes the
groups and is told of every tuple that is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.receiving.discipline import Control, PerTask
from tailrace.receiving.shared import Shared

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tailrace.receiving.discipline import Discipline

    from .agenda import Agenda
    from .model import Stage
    from .pace import Pace
    from .routes import Edge

_NS_PER_US = 1000


class Attempt:
    """One incarnation of a root: how many of its tuples are still under way."""

    __slots__ = ("incarnation", "pending", "root")

    def __init__(self, root: Any, incarnation: int) -> None:
        self.root = root
        self.incarnation = incarnation
        self.pending = 0


class Item:
    """A tuple on its way to a task."""

    __slots__ = ("attempt", "bytes", "dest", "edge", "key", "lineage", "sender", "since_ns", "task")

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


class Task:
    """One server. Counts are totals; ``engine`` takes differences."""

    __slots__ = ("busy_ns", "done", "group", "idle", "index", "latency_ns", "node", "seat", "stage", "waited_ns")

    def __init__(self, stage: Stage, index: int, node: int) -> None:
        self.stage = stage
        self.index = index
        self.node = node
        self.seat = 0
        self.idle = True
        self.done = 0
        self.busy_ns = 0
        self.waited_ns = 0
        self.latency_ns = 0
        self.group: Group


class Group:
    """The tasks of a stage on a node, and where their tuples wait."""

    def __init__(
        self, tasks: list[Task], pace: Pace, random: Random, agenda: Agenda, on_done: Callable[[Task, Item], None]
    ) -> None:
        self.tasks = tasks
        self._pace = pace
        self._random = random
        self._agenda = agenda
        self._on_done = on_done
        self._draw = tasks[0].stage.service_us.draw
        self._inbox: Discipline[Item] = PerTask(len(tasks))
        self.shared = False
        for seat, task in enumerate(tasks):
            task.seat = seat
            task.group = self

    def share(self, shared: bool) -> None:
        """Change the discipline; what waits is handed over in order of arrival."""
        if shared == self.shared:
            return
        old, self.shared = self._inbox, shared
        self._inbox = Shared() if shared else PerTask(len(self.tasks))
        moved: list[Item] = []
        for task in self.tasks:
            old.done(task.seat)  # the simulator keeps what is being worked on in its agenda
            while (item := old.claim(task.seat)) is not None:
                if not isinstance(item, Control):
                    moved.append(item)
                old.done(task.seat)
        for item in sorted(moved, key=lambda each: each.since_ns):
            self._inbox.put(item.task.seat, item)
        for task in self.tasks:
            if task.idle:
                self._begin(task)

    def arrive(self, item: Item) -> None:
        """Let a tuple wait, or begin with it at once."""
        item.since_ns = self._agenda.now_ns
        task = item.task
        self._inbox.put(task.seat, item)
        if task.idle:
            self._begin(task)
        elif self.shared:
            free = next((each for each in self.tasks if each.idle), None)
            if free is not None:
                self._begin(free)

    def _begin(self, task: Task) -> None:
        item = self._inbox.claim(task.seat)
        if item is None or isinstance(item, Control):
            task.idle = True
            return
        task.idle = False
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
        self._inbox.done(task.seat)
        self._on_done(task, item)
        self._begin(task)

    def waiting(self, task: Task) -> int:
        """Tuples that wait where this task takes from, and the one it works on."""
        return self._inbox.waiting(task.seat) + (not task.idle)
