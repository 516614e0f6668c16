"""How much a node can process in one batch, learned from batch to batch (section 3.3, iterative learning control).

Called by the paper's plan and the proportional one. Pure. Changed against the paper: where a node's load does not
follow its capacity (more stragglers than the helpers can relieve) each round would multiply the estimate again and
without end, so it is kept within a factor of the throughput that was measured.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from .observe import MIN_FINISH_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .observe import BatchRun
    from .plans.base import ExecutorNode

WINDUP_MAX = 2.0
"""An estimate is at most this factor from the measured throughput."""


def learn_capacity(capacity: Mapping[str, float], run: BatchRun) -> dict[str, float]:
    """C_1 = throughput, then C_{i+1} = C_i + (C_i / t_i)(t_median - t_i), which is C_i * t_median / t_i."""
    ideal_ms = median(node.finish_ms for node in run.nodes)
    learned = dict(capacity)
    for node in run.nodes:
        finish_ms = max(MIN_FINISH_MS, node.finish_ms)
        throughput = node.load / finish_ms
        before = capacity.get(node.executor)
        estimate = throughput if before is None else before * ideal_ms / finish_ms
        learned[node.executor] = min(WINDUP_MAX * throughput, max(throughput / WINDUP_MAX, estimate))
    return learned


def capacity_of(nodes: Iterable[ExecutorNode], known: Mapping[str, float]) -> dict[str, float]:
    """Fill in executors nothing is known about: the median per core of the known ones times their cores."""
    nodes = list(nodes)
    per_core = [known[node.executor] / node.cores for node in nodes if known.get(node.executor, 0.0) > 0]
    typical = median(per_core) if per_core else 1.0
    return {node.executor: known.get(node.executor, 0.0) or typical * node.cores for node in nodes}
