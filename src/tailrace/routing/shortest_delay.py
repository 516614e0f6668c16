"""Shortest delay: each tuple to the task where it is expected to be done first. Our own successor of ``latency``.

Two parts. (1) Once a second the coordinator estimates each task's service rate from its throughput x and its latency
T: mu = x + 1/T, which is exact for M/M/1 and includes every cause of slowness, as latency does. Rates that differ by
less than ``threshold`` count as equal, so that noise moves nothing. (2) Each sender knows how many of its own tuples
are still with each task (sent less finished, told by the receiver's credits every few ms) and takes the task with the
least (pending * sqrt(senders) + 1) / mu. The root lies between seeing only one's own tuples and taking all other
senders to be just as many.

It settles where ``latency`` swings because a task's rate does not depend on how much it is sent, and the counts answer
within milliseconds. A task without tuples is taken to be a little more average each period, so that a node that
recovers is tried again. When it loses: fixed service times on equal tasks, where strict round robin is as good as it
gets; senders that see credits late (above some 50 ms it is no better than its weights); many senders with few tuples
each, which know little.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .balance import Balance, aged
from .weighted import together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.batch import Batch

    from .balance import TaskView

_US_PER_S = 1e6
#: Fewer tuples in a period are no measurement.
_TUPLES_MIN = 2.0
#: A sender with more tasks to choose from looks at so many of them, other ones for each tuple.
LOOKED_AT_MAX = 16


@dataclass(frozen=True)
class RateEstimator:
    """Turns measurements into relative service rates."""

    period_s: float = 1.0
    ageing: float = 0.3
    threshold: float = 1.25
    forget: float = 0.1

    def adjust(self, balance: Balance, tasks: Sequence[TaskView]) -> Balance:
        """Age each task's rate; what was not measured drifts towards the mean.

        Few tuples say little, and one that happened to take a thousandth of the usual time would make its task a
        thousand times as quick: what n tuples show counts for at most n times what was known, and one for nothing.
        """
        old = [rate for rate in balance.aged if rate is not None]
        mean = sum(old) / len(old) if old else None
        rates: list[float | None] = []
        for rate, view in zip(balance.aged, tasks, strict=True):
            tuples = view.tuples_per_s * self.period_s
            if tuples >= _TUPLES_MIN:
                found = view.tuples_per_s + _US_PER_S / max(1.0, view.latency_us)
                if rate is not None:
                    found = min(max(found, rate / tuples), rate * tuples)
                rates.append(aged(rate, found, self.ageing))
            else:
                rates.append(rate if rate is None or mean is None else aged(rate, mean, self.forget))
        known = [rate for rate in rates if rate is not None]
        if not known:
            return Balance(balance.weights, tuple(rates))
        filled = [sum(known) / len(known) if rate is None else rate for rate in rates]
        return Balance(levelled(filled, self.threshold), tuple(rates))


def levelled(rates: Sequence[float], threshold: float) -> tuple[float, ...]:
    """Make rates equal that are within the threshold of the fastest of their kind; they add up to 1."""
    total = sum(rates)
    found = list(rates)
    left = sorted(range(len(rates)), key=lambda task: (-rates[task], task))
    while left:
        alike = [task for task in left if rates[task] * threshold >= rates[left[0]]]
        for task in alike:
            found[task] = sum(rates[mate] for mate in alike) / len(alike)
        left = left[len(alike) :]
    return tuple(rate / total for rate in found)


class ShortestDelay:
    """One sender's choice by its own pending tuples and the tasks' rates.

    ``pending`` is what is under way already where the rule takes over from another one at run time.
    """

    several = False
    unwraps = False

    def __init__(
        self, weights: Sequence[float], sender: int, senders: int, pending: Sequence[int] | None = None
    ) -> None:
        self.pending = list(pending or [0] * len(weights))
        self._others = senders**0.5
        self._at = sender % len(weights)
        self.reweigh(weights)

    def reweigh(self, weights: Sequence[float]) -> None:
        """Take new rates."""
        self.weights = tuple(weights)
        self._slowness = [1.0 / max(weight, 1e-9) for weight in weights]

    def finished(self, dest: int, tuples: int) -> None:
        """Note that a task has finished tuples of this sender."""
        self.pending[dest] -= tuples

    def choose(self, values: list[Any], origin: Batch) -> list[int]:
        """Send each tracked bundle, else each value, where it is done first."""
        if origin.heads and origin.sizes is not None:
            return together([self._soonest(size) for size in origin.sizes], origin.sizes)
        return [self._soonest(1) for _ in values]

    def _soonest(self, tuples: int) -> int:
        pending, slowness, others, tasks = self.pending, self._slowness, self._others, len(self.pending)
        best, least = 0, float("inf")
        for at in range(self._at, self._at + min(tasks, LOOKED_AT_MAX)):
            dest = at % tasks
            delay = (pending[dest] * others + 1.0) * slowness[dest]
            if delay < least:
                best, least = dest, delay
        pending[best] += tuples
        self._at = (best + 1) % tasks
        return best
