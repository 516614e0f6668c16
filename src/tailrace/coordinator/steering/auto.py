"""Which of the tail's remedies is on: chosen by the conditions of Du & Gupta's Table 4, from live snapshots.

=============  =============================================================  ==============================
technique      condition                                                      here
=============  =============================================================  ==============================
balancing      tasks of one operator differ much in speed                     slowest / fastest >= 1.35
shared queue   two tasks of an operator in a worker, queues highly used       use of the queues >= 0.58
timeout        moderate or low load of queues and of the system               neither, queues and CPU < 0.49
=============  =============================================================  ==============================

The paper advises one technique at a time: its balancing takes minutes and its replays add to the load that balancing
goes by. Ours goes by what is pending, so where there is room for replays it takes balancing as well: what is not yet
sent goes around a worker that stalls, what is there already is sent again. Not where tasks are used less than a tenth,
unless they differ twofold: nothing is pending there that it could go by. Under load it is one technique, heterogeneity
first, because a shared queue or a replay cannot mend it. Speeds and use are measured by work per tuple and by busy
time, which the remedies leave as they are; latencies and queue lengths would fall with the remedy and switch it off
again. A condition must hold for three snapshots, has a band of 10 % around its threshold, and a choice stands for ten
at least. Called by the coordinator once a snapshot; pure. When it loses: conditions that change faster than every few
seconds.
"""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class TaskLoad:
    """One task over the last snapshot's interval."""

    operator: str
    worker: int
    #: Time in user code per tuple; None when it has had no tuple.
    service_us: float | None
    #: Share of the interval in which it was busy.
    busy: float
    #: Tuples of the interval; None where there are always enough to go by.
    tuples: int | None = None


@dataclass(frozen=True)
class Conditions:
    """What Table 4 goes by."""

    #: Of the operators, the largest slowest / fastest work per tuple.
    heterogeneity: float
    #: Of the operators that may share a queue, the busiest one's mean use.
    queue_use: float
    #: Of all operators, the busiest one's mean use; the median of the last snapshots, since a stall is busy time too.
    use: float
    #: The busiest node's.
    cpu: float
    #: Whether some worker has two tasks of an operator that may share.
    siblings: bool
    #: Of the operators, the longest mean work per tuple in this snapshot.
    work_us: float


@dataclass(frozen=True)
class Choice:
    """What is on, and why."""

    technique: str = "none"
    reason: str = "Nothing measured yet."

    @property
    def policies(self) -> dict[str, str]:
        """The names to put into a Policy."""
        return _BASELINE | TECHNIQUES.get(self.technique, {})


_BASELINE = {"inbox": "per_task", "routing": "even", "replay": "off"}
BALANCING, SHARED_QUEUE, TIMEOUT = "balancing", "shared_queue", "timeout"
BOTH = f"{BALANCING}+{TIMEOUT}"
#: The steps that each technique changes, and the policies it puts there.
TECHNIQUES: dict[str, dict[str, str]] = {
    BALANCING: {"routing": "shortest_delay"},
    SHARED_QUEUE: {"inbox": "shared"},
    TIMEOUT: {"replay": "adaptive"},
    BOTH: {"routing": "shortest_delay", "replay": "adaptive"},
}


@dataclass(frozen=True)
class AutoSettings:
    """Thresholds (the paper's crossovers where it has them) and how slow to change one's mind."""

    heterogeneity: float = 1.35
    queue_use: float = 0.58
    cpu: float = 0.49
    #: A technique that is on stays until its condition misses the threshold by this share.
    band: float = 0.1
    confirm: int = 3
    dwell: int = 10
    #: A worker's speed is the median over so many measurements: one stall does not make a slow worker.
    memory: int = 5
    #: A measurement takes in snapshots until it has so many tuples: the mean of a few says little.
    tuples_min: int = 60
    #: Below this work per tuple a choice made for each tuple costs more than it can mend.
    service_min_us: float = 100.0
    #: Below this use a sender hardly ever has a tuple pending when it has the next: it would choose by nothing.
    use_min: float = 0.1
    #: What ``heterogeneity`` must be there: no queue grows at a task that is a little slower.
    heterogeneity_unused: float = 2.0


@dataclass
class _Speed:
    """What one worker's tasks of an operator take per tuple: measurements of enough tuples each, the newest last."""

    kept: deque[float]
    _tuples: int = 0
    _work_us: float = 0.0

    def add(self, service_us: float, tuples: int, tuples_min: int) -> None:
        self._tuples += tuples
        self._work_us += service_us * tuples
        if self._tuples >= tuples_min:
            self.kept.append(self._work_us / self._tuples)
            self._tuples, self._work_us = 0, 0.0


@dataclass
class AutoPolicy:
    """Watches snapshots and names the technique to use."""

    settings: AutoSettings = field(default_factory=AutoSettings)
    #: The techniques that may be used; where one is missing the next whose conditions hold is.
    techniques: frozenset[str] = frozenset(TECHNIQUES)
    choice: Choice = field(default_factory=Choice)
    switches: int = 0
    _speeds: dict[tuple[str, int], _Speed] = field(default_factory=dict)
    _uses: list[float] = field(default_factory=list)
    _wanted: str = "none"
    _seen: int = 0
    _since: int = 0

    def observe(self, tasks: Sequence[TaskLoad], cpu: float, shareable: Mapping[str, bool]) -> Choice:
        """Take a snapshot in; gives the choice that holds from now on."""
        found = self._conditions(tasks, cpu, shareable)
        self._since += 1
        wanted, reason = self._by_table_4(found)
        if wanted == self.choice.technique:
            self._seen = 0
            self.choice = replace(self.choice, reason=reason)
            return self.choice
        self._seen = self._seen + 1 if wanted == self._wanted else 1
        self._wanted = wanted
        settled = self._since >= self.settings.dwell or self.choice.technique == "none"
        if self._seen >= self.settings.confirm and settled:
            self.choice = Choice(wanted, reason)
            self.switches += 1
            self._since = self._seen = 0
        return self.choice

    def _conditions(self, tasks: Sequence[TaskLoad], cpu: float, shareable: Mapping[str, bool]) -> Conditions:
        uses: dict[str, list[float]] = {}
        seats: dict[tuple[str, int], int] = {}
        work: dict[str, list[tuple[float, int]]] = {}
        here = {(task.operator, task.worker) for task in tasks}
        self._speeds = {key: speed for key, speed in self._speeds.items() if key in here}  # others have moved away
        for task in tasks:
            self._measure(task)
            uses.setdefault(task.operator, []).append(task.busy)
            if task.service_us is not None:
                work.setdefault(task.operator, []).append((task.service_us, 1 if task.tuples is None else task.tuples))
            if shareable.get(task.operator, False):
                seats[task.operator, task.worker] = seats.get((task.operator, task.worker), 0) + 1
        ratios = [max(each) / min(each) for each in self._services_us().values() if min(each) > 0]
        means = {operator: statistics.fmean(each) for operator, each in uses.items()}
        self._uses = [*self._uses, max(means.values(), default=0.0)][-self.settings.dwell :]
        return Conditions(
            heterogeneity=max(ratios, default=1.0),
            queue_use=max((mean for operator, mean in means.items() if shareable.get(operator)), default=0.0),
            use=statistics.median(self._uses),
            cpu=cpu,
            siblings=any(count > 1 for count in seats.values()),
            work_us=max(map(_mean, work.values()), default=0.0),
        )

    def _measure(self, task: TaskLoad) -> None:
        if task.service_us is None:
            return
        key = task.operator, task.worker
        if key not in self._speeds:
            self._speeds[key] = _Speed(deque(maxlen=self.settings.memory))
        enough = self.settings.tuples_min
        self._speeds[key].add(task.service_us, enough if task.tuples is None else task.tuples, enough)

    def _services_us(self) -> dict[str, list[float]]:
        """Per operator what a tuple takes on each worker that is known by now, where it takes long enough to matter."""
        found: dict[str, list[float]] = {}
        for (operator, _), speed in self._speeds.items():
            if len(speed.kept) == self.settings.memory:
                found.setdefault(operator, []).append(statistics.median(speed.kept))
        return {operator: each for operator, each in found.items() if max(each) >= self.settings.service_min_us}

    def _by_table_4(self, found: Conditions) -> tuple[str, str]:
        load = f"Queues are used {found.queue_use:.0%}, CPU {found.cpu:.0%}"
        used = self._reaches(found.use, self.settings.use_min, BOTH)
        # No band while both are on: they may be for other reasons, and equal workers often seem to differ by a fifth.
        differing = self.settings.heterogeneity if used else self.settings.heterogeneity_unused
        uneven = self._reaches(found.heterogeneity, differing, BALANCING)
        differ = (
            f"Tasks of one operator differ {found.heterogeneity:.1f}x in work per tuple "
            f"(from {differing}x on: balancing)."
        )
        busy = self._reaches(found.queue_use, self.settings.queue_use, SHARED_QUEUE)
        calm = not busy and found.cpu < self.settings.cpu * (1 + self.settings.band * self._is_on(TIMEOUT, BOTH))
        worth = used and self._reaches(found.work_us, self.settings.service_min_us, BOTH)
        if calm and BOTH in self.techniques and (uneven or worth):
            why = differ if uneven else f"{found.work_us:,.0f} us of work per tuple: worth choosing its task."
            return BOTH, f"{load}: room for a few replays. {why}"
        if uneven and BALANCING in self.techniques:
            return BALANCING, differ
        if busy and found.siblings and SHARED_QUEUE in self.techniques:
            return SHARED_QUEUE, (
                f"Queues are used {found.queue_use:.0%} and siblings share a worker "
                f"(from {self.settings.queue_use:.0%} on: shared queues)."
            )
        if calm and TIMEOUT in self.techniques:
            return TIMEOUT, f"{load}: room for a few replays."
        return "none", f"{load}: no technique's conditions hold."

    def _reaches(self, value: float, threshold: float, *techniques: str) -> bool:
        """Whether a condition holds; while one of its techniques is on it may fall a band below its threshold."""
        return value >= threshold * (1 - self.settings.band * self._is_on(*techniques))

    def _is_on(self, *techniques: str) -> bool:
        return self.choice.technique in techniques


def _mean(measured: Sequence[tuple[float, int]]) -> float:
    """The mean work of tuples, by work and count of each task."""
    tuples = sum(count for _, count in measured)
    return sum(work_us * count for work_us, count in measured) / tuples if tuples else 0.0
