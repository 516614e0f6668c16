"""Where the partitions of a stateful stage live: the same shares that split the input also place the state.

Called by the planner before every batch with state. Pure. Not in the paper, which plans the first stage only: the
stateful stage then stays where it first ran, and the part of it on a slow executor ends every batch late. A move makes
the new home load its store from the checkpoint, so state moves seldom: only if the stage then ends a good part earlier,
only if two batches in a row asked for it, and only some of it at a time. It loses where an executor is slow at reading
the source but not at keeping state: its speed is taken from the first stage, since one that keeps no state shows no
other.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from math import ceil
from statistics import median, median_low
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .observe import TaskEnd
    from .plans.base import ExecutorNode

GAIN_MIN = 0.15
"""The stage must end earlier by this part, or nothing moves."""
MOVED_MAX = 0.25
"""The part of the partitions that may move in one batch, rounded up."""
SPEED_MIN = 0.01
"""Of a typical core's; a plan may give an executor nothing at all."""
REMEMBERED = 3
"""Batches that a partition's weight is taken from: a middle one, so that a reload or a collection does not count."""


def speeds_of(loads: Mapping[str, float], nodes: Sequence[ExecutorNode]) -> dict[str, float]:
    """Read a plan's loads as the speeds of its executors per core, a typical one being 1."""
    per_core = {node.executor: loads[node.executor] / node.cores for node in nodes}
    typical = median(per_core.values())
    return {executor: max(SPEED_MIN, value / typical) if typical else 1.0 for executor, value in per_core.items()}


@dataclass(slots=True)
class StateBook:
    """What is kept about one stateful operator of a query."""

    weights_ms: dict[int, deque[float]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=REMEMBERED)))
    """Per partition, how long its last tasks would have taken on a typical core."""
    asked: frozenset[int] = frozenset()
    """Partitions that the last batch would have moved."""

    def learn(self, tasks: Iterable[TaskEnd], speeds: Mapping[str, float]) -> None:
        """Take in the tasks of a batch; ``speeds`` are those of that batch, a typical core being 1."""
        for task in tasks:
            if task.succeeded and task.executor in speeds:
                took_ms = max(1.0, float(task.finish_ms - task.launch_ms))
                self.weights_ms[task.partition].append(took_ms * speeds[task.executor])

    def settle(self, homes: Sequence[str], nodes: Sequence[ExecutorNode], speeds: Mapping[str, float]) -> list[str]:
        """Return the executor for every partition; an empty name leaves it to Spark."""
        weights_ms = self._weights_ms(len(homes))
        cores = {node.executor: node.cores for node in nodes}
        layout = PartitionLayout(cores, speeds, weights_ms, heaviest_ms=max(weights_ms, default=0.0))
        placed = layout.adopt(homes)
        moves = layout.improved(placed)
        confirmed = [partition for partition in moves if partition in self.asked]
        self.asked = frozenset(moves)
        for partition in confirmed[: ceil(MOVED_MAX * len(homes))]:
            placed[partition] = moves[partition]
        return placed

    def _weights_ms(self, count: int) -> list[float]:
        known = {p: median_low(own) for p, own in self.weights_ms.items() if p < count and own}
        typical_ms = median(known.values()) if known else 1.0
        return [known.get(partition, typical_ms) for partition in range(count)]


@dataclass(frozen=True, slots=True)
class PartitionLayout:
    """Partitions of known weight on executors of known speed."""

    cores: Mapping[str, int]
    speeds: Mapping[str, float]
    """Per core."""
    weights_ms: Sequence[float]
    heaviest_ms: float

    def adopt(self, homes: Sequence[str]) -> list[str]:
        """Keep living homes and find one for each partition that has none, the heaviest first."""
        placed = [home if home in self.cores else "" for home in homes]
        carried_ms = self._carried_ms(placed)
        for partition in sorted(range(len(placed)), key=lambda p: (-self.weights_ms[p], p)):
            if not placed[partition]:
                weight_ms = self.weights_ms[partition]
                placed[partition] = min(carried_ms, key=lambda e: (self._finish_ms(e, carried_ms[e] + weight_ms), e))
                carried_ms[placed[partition]] += weight_ms
        return placed

    def improved(self, placed: Sequence[str]) -> dict[int, str]:
        """Return moves, best first, that let the stage end earlier by a good part; none if they would not."""
        now, moves = list(placed), dict[int, str]()
        carried_ms = self._carried_ms(now)
        before_ms = self._end_ms(carried_ms)
        for _ in placed:
            move = self._best_move(now, carried_ms)
            if move is None:
                break
            partition, target = move
            carried_ms[now[partition]] -= self.weights_ms[partition]
            carried_ms[target] += self.weights_ms[partition]
            now[partition] = moves[partition] = target
        if self._end_ms(carried_ms) > (1 - GAIN_MIN) * before_ms:
            return {}
        return {partition: target for partition, target in moves.items() if placed[partition] != target}

    def _best_move(self, placed: Sequence[str], carried_ms: Mapping[str, float]) -> tuple[int, str] | None:
        """Take the heaviest partition off the executor that ends last for which another would end earlier."""
        last = max(carried_ms, key=lambda e: (self._finish_ms(e, carried_ms[e]), e))
        last_ms = self._finish_ms(last, carried_ms[last])
        own = sorted((p for p, home in enumerate(placed) if home == last), key=lambda p: (-self.weights_ms[p], p))
        for partition in own:
            weight_ms = self.weights_ms[partition]
            target = min(carried_ms, key=lambda e: (self._finish_ms(e, carried_ms[e] + weight_ms), e))
            if target != last and self._finish_ms(target, carried_ms[target] + weight_ms) < last_ms:
                return partition, target
        return None

    def _carried_ms(self, placed: Sequence[str]) -> dict[str, float]:
        carried_ms = dict.fromkeys(self.cores, 0.0)
        for partition, home in enumerate(placed):
            if home:
                carried_ms[home] += self.weights_ms[partition]
        return carried_ms

    def _finish_ms(self, executor: str, carried_ms: float) -> float:
        """Work spreads over an executor's cores, but one partition is one task and takes one of them."""
        one_task_ms = min(carried_ms, self.heaviest_ms)
        return max(carried_ms / self.cores[executor], one_task_ms) / self.speeds[executor]

    def _end_ms(self, carried_ms: Mapping[str, float]) -> float:
        return max(self._finish_ms(executor, value) for executor, value in carried_ms.items())
