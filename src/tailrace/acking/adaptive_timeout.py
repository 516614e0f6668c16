"""When a source gives up waiting for a root and sends it again: the adaptive timeout, and the budget that bounds it.

Du & Gupta, Algorithm 1, once a second over the latencies of the last period: if p99 > 2 p90 the timeout is p90; else if
p99.9 > 2 p95 it is p95; else p99.9. Changed here, because as published a step of the service times would replay
everything: (1) at most ``budget`` (3 %) of what is emitted is ever replayed, and the timeout is lifted to the
percentile at which that share is overdue, so that the budget goes to the true stragglers and not to the first that
come; (2) it takes at least 1,000 samples, from as many periods as that needs; (3) roots still open count as at least
their age; (4) it is never below twice the flush interval, since a tuple may wait that long for company alone.

Called by the worker that hosts the source task. Pure: latencies, ages and counts are passed in. When it loses: at high
load, where a replay waits in the same queues as its first incarnation and lengthens them; on a single path (one task
per operator, keyed streams, sinks), where a replay meets the same slow task; and when everything is slow alike.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.metrics.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: How much longer than the inner percentile the outer one must be for a tail to count as long.
LONG_TAIL = 2.0


@dataclass(frozen=True)
class TimeoutSettings:
    """Defaults are the paper's where it has one."""

    period_s: float = 1.0
    budget: float = 0.03
    samples_min: int = 1000
    #: Histograms of so many periods are kept at most while samples are few.
    periods_max: int = 60
    #: Until there are enough samples; a root lost with its worker is replayed by other means.
    first_ns: int = 30_000_000_000
    flush_ns: int = 1_000_000
    #: Replays that may be saved up for a stall; what is emitted always earned them before.
    burst: float = 64.0
    #: Replays of one root for being late.
    replays_max: int = 8


def algorithm_1(percentile: Callable[[float], float]) -> float:
    """The published choice among three percentiles."""
    if percentile(0.99) > LONG_TAIL * percentile(0.90):
        return percentile(0.90)
    if percentile(0.999) > LONG_TAIL * percentile(0.95):
        return percentile(0.95)
    return percentile(0.999)


class AdaptiveTimeout:
    """The timeout of one source task."""

    def __init__(self, settings: TimeoutSettings | None = None) -> None:
        self.settings = settings or TimeoutSettings()
        self.timeout_ns = self.settings.first_ns
        self._now = Histogram()
        self._periods: deque[Histogram] = deque(maxlen=self.settings.periods_max)

    def note(self, latencies_ns: list[int]) -> None:
        """Count roots that were completed, from sending to the first incarnation's end."""
        self._now.add(latencies_ns)

    def adjust(self, open_ages_ns: Sequence[int]) -> int:
        """End a period: give the timeout of the next one. Call it every ``period_s``."""
        periods = self._periods
        if len(self._now):
            periods.append(self._now)
            self._now = Histogram()
        while len(periods) > 1 and sum(map(len, periods)) - len(periods[0]) >= self.settings.samples_min:
            periods.popleft()
        if sum(map(len, periods)) < self.settings.samples_min:
            return self.timeout_ns
        whole = Histogram()
        for period in periods:
            whole.merge(period)
        whole.add(list(open_ages_ns))
        wanted = max(algorithm_1(whole.percentile), whole.percentile(1 - self.settings.budget))
        self.timeout_ns = max(2 * self.settings.flush_ns, round(wanted))
        return self.timeout_ns


class ReplayBudget:
    """What may be replayed: a share of what was emitted, with a little saved up for the next stall."""

    def __init__(self, settings: TimeoutSettings | None = None) -> None:
        self._settings = settings or TimeoutSettings()
        self._saved = 0.0
        self.emitted = 0
        self.replayed = 0

    def earn(self, emitted: int) -> None:
        """Count fresh roots."""
        self.emitted += emitted
        self._saved = min(self._settings.burst, self._saved + self._settings.budget * emitted)

    def take(self, wanted: int) -> int:
        """Say how many of the roots that are overdue may be sent again; the oldest should be."""
        granted = min(wanted, int(self._saved))
        self._saved -= granted
        self.replayed += granted
        return granted
