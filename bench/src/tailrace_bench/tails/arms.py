"""One arm of a tail bench: a query with a policy, warmed, then watched for some windows of time, then ended.

Arms of a case run one after the other, one query at a time, since all of them together would not fit on two cores;
every other repeat runs them in the opposite order.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import tempfile
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tailrace.config import Settings
from tailrace.coordinator.query import Query
from tailrace.coordinator.reporting.latency import latency_so_far, since
from tailrace.metrics.histogram import Histogram
from tailrace.spark.session import EXECUTORS, embedded, end_embedded, end_jvm
from tailrace.testing.chaos import Knobs
from tailrace.testing.processes import ProcessHost
from tailrace_bench.reporting.rows import P999_SAMPLES_MIN, make_row, missing_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tailrace.config import Policy
    from tailrace.topology.graph import Topology
    from tailrace_bench.measurement.pace import Pace
    from tailrace_bench.reporting.rows import Row

WORKERS = 5
OPEN_S = 2.5
#: After a switch, until reports hold nothing of the arm before.
_SETTLE_S = 1.2
#: After a slow worker has recovered, until its share is looked at.
RECOVERY_S = 5.0
_MS_PER_NS = 1e-6
_SHARES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99}
_P999 = "p999_ms"


#: The policies of an arm that is switched to while its query runs, by step.
Steps = dict[str, str]


@dataclass(frozen=True)
class TailTimes:
    """How long an arm runs."""

    repeats: int
    warm_s: float
    window_s: float
    windows: int
    #: Between two windows of one query that is switched: until queues hold nothing of the arm before.
    settle_s: float = _SETTLE_S

    @property
    def arm_s(self) -> float:
        """One arm of one repeat, with its opening."""
        return OPEN_S + self.warm_s + self.windows * self.window_s

    @property
    def turn_s(self) -> float:
        """One window of an arm that is switched to."""
        return self.settle_s + self.window_s


@dataclass(frozen=True)
class TailCase:
    """A scenario: its flow, and what is done to its workers."""

    name: str
    flow: Callable[[Knobs, int], Topology]
    disturb: Callable[[Knobs, int], None]
    #: What happens between the warm-up and the first window, if anything does.
    midway: Callable[[Knobs], None] | None = None
    #: What happens after the last window, if anything does; weights are then watched for a while.
    afterwards: Callable[[Knobs], None] | None = None


@dataclass
class TailMeasurements:
    """What one arm gave, over all repeats."""

    windows: list[Histogram] = field(default_factory=list)
    #: Replays per fresh root, of each repeat.
    extra: list[float] = field(default_factory=list)
    replays: int = 0
    fresh: int = 0
    #: Weights of the first balanced edge at the end of each window, and how many were noted after ``afterwards``.
    weights: list[list[float]] = field(default_factory=list)
    recovered: int = 0
    progress: dict[str, Any] = field(default_factory=dict)

    @property
    def pooled(self) -> Histogram:
        """All windows as one."""
        whole = Histogram()
        for each in self.windows:
            whole.merge(each)
        return whole


class ArmHosts:
    """Where arms run: workers on Spark, or as plain processes."""

    def __init__(self, say: Callable[[str], None], *, spark: bool = True) -> None:
        self._say = say
        self._wanted = spark
        self._spark: Any = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the hosts

    def host(self, settings: Settings) -> Any:
        """A host for one query."""
        if not self._wanted:
            return ProcessHost(WORKERS)
        from tailrace.spark.host import SparkHost  # noqa: PLC0415 - only where Spark is there

        return SparkHost(self.session(WORKERS + 1), WORKERS, settings)

    def session(self, slots: int, executors: int = EXECUTORS) -> Any:
        """The session of all arms, started for the first of them."""
        if self._spark is None:
            self._say("Starting Spark")
            logging.getLogger("py4j").setLevel(logging.CRITICAL)
            self._spark = embedded(slots, self._log, executors=executors)
            # PySpark's own handler cancels the jobs that host the workers: after Ctrl-C nothing could end in order.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return self._spark

    def close(self) -> None:
        """End Spark, if it was started."""
        if self._spark is not None:
            end_embedded(self._spark)
            end_jvm()
        self._log.close()


@contextlib.contextmanager
def hosts_of(pace: Pace, *, spark: bool) -> Iterator[ArmHosts]:
    """Give the hosts of arms and end them, whatever comes."""
    hosts = ArmHosts(lambda text: pace.step(text, 0), spark=spark)
    try:
        yield hosts
    finally:
        hosts.close()


def run_case(
    hosts: ArmHosts,
    case: TailCase,
    policies: Mapping[str, Policy],
    settings: Settings | Mapping[str, Settings],
    times: TailTimes,
    pace: Pace,
    warm_s: Mapping[str, float] | None = None,
) -> dict[str, TailMeasurements]:
    """Run all arms of a case in all repeats; arms may have settings and warm-ups of their own, by name."""
    found = {name: TailMeasurements() for name in policies}
    for repeat in range(times.repeats):
        for name in list(policies)[:: 1 if repeat % 2 == 0 else -1]:
            own = replace(times, warm_s=(warm_s or {}).get(name, times.warm_s))
            pace.step(f"{case.name}, repeat {repeat + 1} of {times.repeats}: {name}", own.arm_s)
            chosen = settings if isinstance(settings, Settings) else settings[name]
            _run_arm(hosts, case, policies[name], chosen, own, repeat, found[name])
    return found


def _run_arm(
    hosts: ArmHosts,
    case: TailCase,
    policy: Policy,
    settings: Settings,
    times: TailTimes,
    seed: int,
    into: TailMeasurements,
) -> None:
    with Knobs() as knobs:
        query = Query(case.flow(knobs, seed), hosts.host(settings), policy, settings).start()
        try:
            case.disturb(knobs, seed)
            time.sleep(times.warm_s)
            _disturb_anew(case, knobs, seed)
            if case.midway is not None:
                case.midway(knobs)
            begun, before = query.lastProgress or {}, latency_so_far(query)
            for _ in range(times.windows):
                time.sleep(times.window_s)
                now = latency_so_far(query)
                into.windows.append(since(before, now))
                before = now
                _note_weights(query, into)
            ended = query.lastProgress or {}
            fresh = ended.get("read", 0) - begun.get("read", 0)
            into.extra.append((ended.get("replays", 0) - begun.get("replays", 0)) / max(1, fresh))
            into.progress = ended
            if case.afterwards is not None and into.weights:
                case.afterwards(knobs)
                time.sleep(RECOVERY_S)
                _note_weights(query, into)
                into.recovered += 1
        finally:
            query.stop(now=True)


def run_switched(
    hosts: ArmHosts,
    case: TailCase,
    policy: Policy,
    arms: Mapping[str, Steps],
    settings: Settings,
    times: TailTimes,
    pace: Pace,
) -> dict[str, TailMeasurements]:
    """Run all arms of a case in one query whose policies are switched from window to window, in changing order.

    Whatever disturbs the machine or the workers then meets all arms alike, and one warm-up is enough for all of them.
    An arm without steps lets the coordinator choose.
    """
    found = {name: TailMeasurements() for name in arms}
    pace.step(f"{case.name}, warming up", OPEN_S + times.warm_s)
    with Knobs() as knobs:
        query = Query(case.flow(knobs, 0), hosts.host(settings), policy, settings).start()
        try:
            case.disturb(knobs, 0)
            time.sleep(times.warm_s)
            if case.midway is not None:
                case.midway(knobs)
            for round_ in range(times.windows):
                for name in list(arms)[:: 1 if round_ % 2 == 0 else -1]:
                    pace.step(f"{case.name}, window {round_ + 1} of {times.windows}: {name}", times.turn_s)
                    query.switch(**arms[name])
                    time.sleep(times.settle_s)
                    _disturb_anew(case, knobs, round_)
                    _watch(query, times.window_s, found[name])
        finally:
            query.stop(now=True)
    return found


def _disturb_anew(case: TailCase, knobs: Knobs, seed: int) -> None:
    """Before a window: all arms that are compared meet the same stalls, whatever went before."""
    knobs.calm()
    case.disturb(knobs, seed)


def _note_weights(query: Query, into: TailMeasurements) -> None:
    balanced = (query.lastProgress or {}).get("balancing")
    if balanced:
        into.weights.append(balanced[0]["weights"])


def _watch(query: Query, seconds: float, into: TailMeasurements) -> None:
    """Note one window: latencies and replays."""
    begun, before = query.lastProgress or {}, latency_so_far(query)
    time.sleep(seconds)
    ended = query.lastProgress or {}
    into.windows.append(since(before, latency_so_far(query)))
    fresh = ended.get("read", 0) - begun.get("read", 0)
    into.replays += ended.get("replays", 0) - begun.get("replays", 0)
    into.fresh += fresh
    into.extra = [into.replays / max(1, into.fresh)]
    into.progress = ended


def tail_rows(
    case: str,
    ours: TailMeasurements,
    base: TailMeasurements,
    baseline: str,
    bars: Mapping[str, float],
    papers: Mapping[str, object] | None = None,
) -> list[Row]:
    """The percentiles of one arm against another's, window by window; p99.9 over all windows, if there are enough."""
    rows = []
    for metric, share in _SHARES.items():
        values, against = (
            [each.percentile(share) * _MS_PER_NS for each in arm.windows if len(each)] for arm in (ours, base)
        )
        rows.append(
            make_row(
                case, metric, "ms", values,
                better="lower", baseline=baseline, base=against, bar=bars.get(metric), paper=(papers or {}).get(metric),
            )
        )  # fmt: skip
    return [*rows, _p999(case, ours.pooled, base.pooled, baseline, bars.get(_P999))]


def _p999(case: str, ours: Histogram, base: Histogram, baseline: str, bar: float | None) -> Row:
    samples = min(len(ours), len(base))
    if samples < P999_SAMPLES_MIN:
        reason = f"{samples:,} samples; {P999_SAMPLES_MIN:,} are needed"
        return missing_row(case, _P999, "ms", reason, "lower")
    values = [each.percentile(0.999) * _MS_PER_NS for each in (ours, base)]
    return make_row(
        case, _P999, "ms", values[:1], better="lower", baseline=baseline, base=values[1:], bar=bar
    )  # fmt: skip
