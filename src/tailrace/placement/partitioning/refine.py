"""Refinement of a two-way split after Fiduccia and Mattheyses, with vertex weights: ours, not in either paper.

TurboStream's split calls it on every level while it unfolds consolidated tasks, and the k-way polish calls it on pairs
of nodes. A pass moves the task that gains most, once each, even at a loss, and then goes back to the best moment.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .indexed import IndexedGraph

    # Negative gain, order of arrival (latest first), task.
    _Heap = list[tuple[float, int, int]]

PASSES_MAX = 8
# Up to this size a pass queues all tasks, not only those at the border.
_FULL_PASS_TASKS = 300
# In large graphs a run of moves without gain is given up after this share of the tasks.
_PATIENCE_SHARE = 0.01
PATIENCE = 60
_EPSILON = 1e-9


class _Refiner:
    """State of one refinement: sides, gains (traffic saved by moving), and weight of side 0."""

    def __init__(self, graph: IndexedGraph, side: list[int], low: float, high: float) -> None:
        self.weight, self.near, self.side = graph.weight, graph.near, side
        self.low, self.high = low, high
        self.zero = sum(w for w, s in zip(graph.weight, side, strict=True) if s == 0)
        self.gain = [0.0] * len(graph)
        for v, near in enumerate(graph.near):
            at, gain = side[v], 0.0
            for u, rate in near.items():
                gain += -rate if side[u] == at else rate
            self.gain[v] = gain
        # Differences below these are rounding; loads and traffic have units of their own.
        self.load_epsilon = _EPSILON * sum(graph.weight)
        self.gain_epsilon = _EPSILON * max((abs(g) for g in self.gain), default=0.0)

    def violation(self, zero: float) -> float:
        """How far a weight of side 0 lies outside its bounds."""
        return max(0.0, self.low - zero, zero - self.high)

    def flip(self, v: int) -> None:
        """Move one task to the other side and keep every gain right."""
        side, gain = self.side, self.gain
        at = side[v]
        self.zero += self.weight[v] if at else -self.weight[v]
        side[v] = 1 - at
        gain[v] = -gain[v]
        for u, rate in self.near[v].items():
            if side[u] == at:
                gain[u] += rate + rate
            else:
                gain[u] -= rate + rate

    def run_pass(self, patience: int) -> bool:
        """One pass; True if balance or cut got better."""
        heaps = self._heaps()
        locked = bytearray(len(self.side))
        moves: list[int] = []
        delta, best_at = 0.0, 0
        best = (self.violation(self.zero), 0.0)
        start = best
        stamp = 0
        while len(moves) - best_at < patience:
            v = self._choose(heaps, locked)
            if v < 0:
                break
            locked[v] = 1
            delta -= self.gain[v]
            self.flip(v)
            moves.append(v)
            gain, side = self.gain, self.side
            for u in self.near[v]:
                if not locked[u]:
                    stamp -= 1
                    heappush(heaps[side[u]], (-gain[u], stamp, u))
            now = (self.violation(self.zero), delta)
            if self._better(now, best):
                best, best_at = now, len(moves)
        for v in reversed(moves[best_at:]):
            self.flip(v)
        return best != start

    def _better(self, now: tuple[float, float], best: tuple[float, float]) -> bool:
        """Less outside the bounds, or no more outside and less traffic across."""
        off = now[0] - best[0]
        return off < -self.load_epsilon or (off <= self.load_epsilon and now[1] < best[1] - self.gain_epsilon)

    def _heaps(self) -> tuple[_Heap, _Heap]:
        """Queue the tasks at the border, or all when the graph is small or the balance must be mended first."""
        everyone = len(self.side) <= _FULL_PASS_TASKS or self.violation(self.zero) > 0
        heaps: tuple[_Heap, _Heap] = ([], [])
        for v, gain in enumerate(self.gain):
            if everyone or gain > 0 or self._borders(v):
                heaps[self.side[v]].append((-gain, 0, v))
        heapify(heaps[0])
        heapify(heaps[1])
        return heaps

    def _borders(self, v: int) -> bool:
        at, side = self.side[v], self.side
        return any(side[u] != at for u in self.near[v])

    def _choose(self, heaps: tuple[_Heap, _Heap], locked: bytearray) -> int:
        """Best move that keeps side 0 within one task of its bounds, or mends it; -1 if there is none."""
        for at in (0, 1):
            heap = heaps[at]
            while heap and (locked[heap[0][2]] or self.side[heap[0][2]] != at or -heap[0][0] != self.gain[heap[0][2]]):
                heappop(heap)
        sides: tuple[int, ...]
        if self.zero > self.high:
            sides = (0,)
        elif self.zero < self.low:
            sides = (1,)
        else:
            sides = (0, 1)
        found, found_key = -1, (0.0, 0.0)
        for at in sides:
            heap = heaps[at]
            if not heap:
                continue
            v = heap[0][2]
            after = self.zero + (self.weight[v] if at else -self.weight[v])
            key = (heap[0][0], self.violation(after))
            if found < 0 or key < found_key:
                found, found_key = v, key
        return found


def refine(
    graph: IndexedGraph,
    side: list[int],
    low: float,
    high: float,
    passes: int = PASSES_MAX,
    patience: int = PATIENCE,
) -> None:
    """Improve ``side`` in place: first bring the weight of side 0 into [low, high], then lower the cut.

    A pass ends after ``patience`` moves in a row without gain (in large graphs a hundredth of the tasks).
    """
    refiner = _Refiner(graph, side, low, high)
    for _ in range(passes):
        if not refiner.run_pass(max(patience, int(_PATIENCE_SHARE * len(graph)))):
            return
