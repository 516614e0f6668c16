"""Micro-batches on a virtual cluster: the tasks of one stage on the cores of many nodes, with a rival that may step in.

``scenarios.lever`` runs batches through it; what decides is a rival (``rivals``) while a stage runs, or one of Lever's
own plans before it begins. Loads are milliseconds of one core at speed 1. A task that runs away from its data takes a
launch and a fetch besides.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .rivals.base import Rival


@dataclass(frozen=True)
class Cluster:
    """Nodes of two dual-core CPUs each; one receiver block per 200 ms of a 2 s batch, as Spark Streaming cuts them."""

    speeds: tuple[float, ...]
    cores: int = 4
    blocks: int = 10
    #: Assumed: moving a task's data takes this part of the time that working on it takes at speed 1.
    fetch_part: float = 0.25
    launch_ms: float = 20.0


@dataclass(eq=False)
class BatchTask:
    """A piece of the input: its work, the node that holds it, and when it may begin at the earliest."""

    load: float
    data_node: int
    ready_ms: float = 0.0
    runs: list[TaskRun] = field(default_factory=list)
    #: The run that counted: the first to end.
    won: TaskRun | None = None


@dataclass(eq=False)
class TaskRun:
    """A task on a core."""

    task: BatchTask
    node: int
    begun_ms: float
    end_ms: float
    over: bool = False


class BatchStage:
    """One stage: every node runs what waits there, core by core, until all tasks are done once."""

    def __init__(self, loads: Sequence[float], cluster: Cluster) -> None:
        self.cluster = cluster
        self.waiting: list[deque[BatchTask]] = [
            deque(BatchTask(load / cluster.blocks, node) for _ in range(cluster.blocks) if load > 0)
            for node, load in enumerate(loads)
        ]
        self.tasks = [task for queue in self.waiting for task in queue]
        self.free = [cluster.cores] * len(loads)
        self.running: list[TaskRun] = []
        self.took_ms: list[float] = []
        self.busy_ms = 0.0
        self.now_ms = 0.0
        self._events: list[tuple[float, int, TaskRun | None]] = []
        self._entered = 0
        self._open = len(self.tasks)

    def play(self, rival: Rival) -> BatchStageResult:
        """Run to the end."""
        rival.before(self)
        if rival.tick_ms:
            self._enter(rival.tick_ms, None)
        self._fill(rival)
        while self._open:
            self.now_ms, _, run = heappop(self._events)
            if run is None:
                rival.tick(self)
                self._enter(self.now_ms + rival.tick_ms, None)
            elif not run.over:
                self._end(run)
            self._fill(rival)
        finish = [0.0] * len(self.free)
        local = 0
        for task in self.tasks:
            if task.won is not None:
                finish[task.won.node] = max(finish[task.won.node], task.won.end_ms)
                local += task.won.node == task.data_node
        return BatchStageResult(tuple(finish), self.now_ms, self.busy_ms, local / max(1, len(self.tasks)))

    def begin(self, task: BatchTask, node: int) -> None:
        """Put a task on a core of a node."""
        cluster = self.cluster
        need_ms = task.load / cluster.speeds[node]
        if node != task.data_node:
            need_ms += cluster.launch_ms + cluster.fetch_part * task.load
        run = TaskRun(task, node, self.now_ms, max(self.now_ms, task.ready_ms) + need_ms)
        task.runs.append(run)
        self.running.append(run)
        self.free[node] -= 1
        self._enter(run.end_ms, run)

    def stop(self, run: TaskRun) -> float:
        """Take a run off its core; gives the load that is left of it."""
        left = max(0.0, run.end_ms - max(self.now_ms, run.task.ready_ms)) * self.cluster.speeds[run.node]
        self._leave(run)
        return min(run.task.load, left)

    def replace(self, task: BatchTask, pieces: Sequence[BatchTask]) -> None:
        """Let pieces stand for a task that nobody runs any more."""
        self.tasks.remove(task)
        self.tasks += pieces
        self._open += len(pieces) - 1

    def _leave(self, run: TaskRun) -> None:
        run.over = True
        self.running.remove(run)
        self.free[run.node] += 1
        self.busy_ms += self.now_ms - run.begun_ms

    def _end(self, run: TaskRun) -> None:
        run.task.won = run
        self._open -= 1
        self.took_ms.append(run.end_ms - run.begun_ms)
        for each in run.task.runs:
            if not each.over:
                self._leave(each)

    def _fill(self, rival: Rival) -> None:
        for node, queue in enumerate(self.waiting):
            while self.free[node] and queue:
                task = queue.popleft()
                if task.won is None:
                    self.begin(task, node)
        rival.idle(self)

    def _enter(self, time_ms: float, run: TaskRun | None) -> None:
        self._entered += 1
        heappush(self._events, (time_ms, self._entered, run))


@dataclass(frozen=True)
class BatchStageResult:
    """When each node was finished, when all were, the core time used, and the share of tasks that ran at their data."""

    finish_ms: tuple[float, ...]
    makespan_ms: float
    busy_ms: float
    local_share: float
