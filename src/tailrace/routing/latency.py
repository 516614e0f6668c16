"""Latency-based balancing as published (Du & Gupta, Algorithm 2), with the paper's parameters as defaults.

Every 5 s, per upstream operator: W_j = a T_j + (1 - a) W_j with a = 0.5; sort downstream tasks by W; pair the slowest
with the fastest, the next slowest with the next fastest, and so on; while W_slow / W_fast > 1.2 move 1 % of the traffic
from the slow to the fast one of the pair, and stop at the first pair below.

When it loses: a share changes by 1 % in 5 s, so that a node at half speed among five needs most of a minute, during
which its queue may only grow; and near saturation, where latency answers late and steeply, it goes on moving after the
queues have turned and swings around the balance. It drives a task that is slower by more than the threshold when idle
to no traffic at all, and then never measures it again. ``shortest_delay`` is meant to do better on all three.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .balance import Balance, aged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .balance import TaskView


@dataclass(frozen=True)
class LatencyBalancer:
    """Moves a step of traffic from the slower to the faster of each pair."""

    period_s: float = 5.0
    ageing: float = 0.5
    threshold: float = 1.2
    step: float = 0.01

    def adjust(self, balance: Balance, tasks: Sequence[TaskView]) -> Balance:
        """Age the latencies and shift one step per pair that is out of balance."""
        found = [
            aged(old, view.latency_us, self.ageing) if view.tuples_per_s else old
            for old, view in zip(balance.aged, tasks, strict=True)
        ]
        known = sorted((latency, task) for task, latency in enumerate(found) if latency is not None)
        shares = list(balance.weights)
        for (fast_us, fast), (slow_us, slow) in zip(known[: len(known) // 2], reversed(known), strict=False):
            if slow_us <= self.threshold * fast_us:
                break
            moved = min(self.step, shares[slow])
            shares[slow] -= moved
            shares[fast] += moved
        return Balance(tuple(shares), tuple(found))
