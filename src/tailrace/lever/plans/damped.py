"""Tailrace's own plan: measured rates, filtered per executor, with a gain that trusts news and distrusts flutter.

Equation 7 over all executors like the proportional plan, but the estimate moves by a part of the surprise (logarithm
of measured over expected rate). A large surprise is a change of regime and is taken at once; a large one that reverses
the last one is flutter and is halved; a small one is noise and is mostly filtered, unless the last one pointed the
same way: then it is a trend and taken whole. Rates are relative to the common change of all executors, so dearer rows
or a busier cluster are no surprise. In the simulator the gains lie on a flat top: within 0.5 % of the proportional plan
on steady, moving and drifting speeds, 8 % better where a speed flutters from batch to batch. It loses 0.5 % where an
executor is slow for single batches now and then: the way back is taken for flutter and halved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, log
from statistics import median
from typing import TYPE_CHECKING

from ..capacity import capacity_of
from ..observe import MIN_FINISH_MS
from ..predict import classify
from .base import LoadAssignment, in_proportion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..observe import BatchRun
    from .base import ExecutorNode, Memory

REGIME = log(1.45)
"""A rate off by more than this is not noise."""
GAIN_REGIME, GAIN_FLUTTER, GAIN_TREND, GAIN_NOISE = 1.0, 0.5, 1.0, 0.5
SHARE_MIN = 0.05
"""No load per core falls below this part of an even one: who gets nothing can never show that it recovered."""


@dataclass(frozen=True, slots=True)
class DampedPlan:
    """Filtered rates plus equation 7."""

    name: str = "damped"

    def learn(self, memory: Memory, run: BatchRun) -> Memory:
        """Move each estimate towards the measured rate."""
        rates = {node.executor: node.load / max(MIN_FINISH_MS, node.finish_ms) for node in run.nodes}
        known = {executor: rate for executor, rate in rates.items() if memory.capacity.get(executor, 0.0) > 0}
        common = median(rate / memory.capacity[executor] for executor, rate in known.items()) if known else 1.0
        capacity = {executor: value * common for executor, value in memory.capacity.items()}
        surprise = {}
        for executor, rate in rates.items():
            if executor not in known:
                capacity[executor] = rate
                continue
            news = log(rate / capacity[executor])
            capacity[executor] *= exp(_gain(news, memory.surprise.get(executor, 0.0)) * news)
            surprise[executor] = news
        return replace(memory, last=run, capacity=capacity, surprise=surprise)

    def assign(self, memory: Memory, nodes: Sequence[ExecutorNode], total: float) -> LoadAssignment:
        """Give each executor its part by capacity, and each at least a little."""
        capacity = capacity_of(nodes, memory.capacity)
        floor_per_core = SHARE_MIN * sum(capacity.values()) / sum(node.cores for node in nodes)
        weights = {node.executor: max(capacity[node.executor], floor_per_core * node.cores) for node in nodes}
        return LoadAssignment(in_proportion(weights, total), classify(memory.last.finish_ms) if memory.last else {})


def _gain(news: float, before: float) -> float:
    if abs(news) < REGIME:
        return GAIN_TREND if before * news > 0 else GAIN_NOISE
    return GAIN_FLUTTER if before * news < 0 and abs(before) >= REGIME else GAIN_REGIME
