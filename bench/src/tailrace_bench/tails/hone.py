"""``tailrace bench hone``: word count behind a limited uplink at 90 % use; who sends next, lbf, round_robin or fifo.

Hone's deployment: ten tasks and a node per operator, here an executor of two workers each, so that the gate works
across processes; transfer batching off. As in the model of its section 4, from which its claims on the largest backlog
are, sentences come to each split task as a Poisson stream of its own; case ``in_turn`` deals them in turn instead, as
shuffle does. Words then go to the count by ``shuffle``, ``fields`` or ``partial_key``.
"""

from __future__ import annotations

import tempfile
import time
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.config import Policy, Settings
from tailrace.coordinator.query import Query
from tailrace.errors import ConfigError
from tailrace.testing.processes import ProcessHost
from tailrace_bench.bench import Bench, Timed
from tailrace_bench.reporting.rows import make_row, missing_row

from .arms import ArmHosts, TailTimes
from .sentences import ROW_PLACES, TASKS, SentenceLoad, bytes_per_word, word_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tailrace_bench.measurement.pace import Pace
    from tailrace_bench.reporting.rows import Better, Row

CASES = ("shuffle", "fields", "partial_key", "in_turn", "tau", "words")
LBF, ROUND_ROBIN, FIFO = "lbf", "round_robin", "fifo"
_EXECUTORS, _PER_EXECUTOR = 3, 2
_USE = 0.9
PER_S = 585.0
_WORDS = (10, 20, 30)
_TAUS_MS = (1.0, 50.0, 130.0)
#: Without a quantum only tau ends a grant, as in the paper.
_NO_QUANTUM = 1 << 30
_NS_PER_S, _NS_PER_MS = 1_000_000_000, 1_000_000
_P99 = 0.99
#: Arms that carry less than this of what is offered say something about the machine and nothing about gates.
_CARRIED_MIN = 0.95
#: Name, unit, which way is better; bars against round robin and fifo; what the paper says.
_METRICS: dict[str, tuple[str, Better, Mapping[str, float], str | None]] = {
    "max_backlog": ("tuples", "lower", {ROUND_ROBIN: 0.65, FIFO: 0.85}, "0.17 of an idling round robin, simulated"),
    "mean_ms": ("ms", "lower", {ROUND_ROBIN: 1.05, FIFO: 1.05}, "0.21 of Storm"),
    "throughput": ("words/s", "higher", {ROUND_ROBIN: 0.98, FIFO: 0.98}, None),
    "slowest_task_p99_ms": ("ms", "lower", {}, "mean of the slowest split task below Storm's"),
}
_PAPER_PARTIAL = {"mean_ms": "0.06 of Storm"}
QUICK = TailTimes(repeats=1, warm_s=1.0, window_s=5.0, windows=2)
FULL = TailTimes(repeats=5, warm_s=4.0, window_s=30.0, windows=1)
_NOTE_LOAD = (
    f"{PER_S:,.0f} sentences/s, half of the paper's lowest rate; the link is used {_USE:.0%}. A word is a tuple, "
    "and mean_ms is that of words, from when their sentence was due, as the paper defines latency."
)
_NOTE_MEAN = (
    "The paper's gain in the mean is over an idling round robin and a Storm without a gate: no order of equal tuples "
    "changes their mean wait as long as nothing idles."
)
NOTES = [
    _NOTE_LOAD,
    "max_backlog is the largest number of words that waited behind one split task at any time of a run.",
    _NOTE_MEAN,
    f"A case in which an arm carried less than {_CARRIED_MIN:g} of what was offered is void: the machine was too slow.",
    "lbf loses to fifo at the slowest task's p99: a short queue waits for all longer ones.",
]


def planned_s(times: TailTimes, only: str | None) -> float:
    """About how long it takes."""
    return 15.0 + sum(_arms_of(case) * _seconds(case, times) for case in CASES if only in {None, case})


def _arms_of(case: str) -> int:
    return {"tau": len(_TAUS_MS) + 2, "words": 2 * len(_WORDS)}.get(case, 3)


def _seconds(case: str, times: TailTimes) -> float:
    times = _sweep(times) if case in {"in_turn", *_SWEEPS} else times
    return times.repeats * times.arm_s


def _sweep(times: TailTimes) -> TailTimes:
    """What is shown beside the main cases shows a direction."""
    return TailTimes(1, times.warm_s, times.window_s, 1)


class NodeHosts(ArmHosts):
    """Three executors of two workers each, to be taken for nodes."""

    def host(self, settings: Settings) -> Any:
        """A host for one query."""
        workers = _EXECUTORS * _PER_EXECUTOR
        if not self._wanted:
            return ProcessHost(workers, per_executor=_PER_EXECUTOR)
        from tailrace.spark.host import SparkHost  # noqa: PLC0415 - only where Spark is there

        return SparkHost(self.session(workers, _EXECUTORS), workers, settings)


@dataclass
class BacklogMeasurements:
    """What one arm gave: the largest backlog of each repeat, the other metrics window by window."""

    values: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in _METRICS})


@dataclass(frozen=True)
class SendingArm:
    """One way to send."""

    sending: str
    load: SentenceLoad
    grouping: str = "shuffle"
    routing: str = "even"
    gate: Mapping[str, Any] = field(default_factory=dict)

    def policy(self) -> Policy:
        """The arm's policy; untracked, so that nothing but words and sentences is on the link."""
        return Policy(sending=self.sending, placement="by_operator", routing=self.routing, replay="off")

    def settings(self) -> Settings:
        """A link that is as full as it should be."""
        return Settings(
            link_bytes_per_s=int(self.load.words_per_s * bytes_per_word() / _USE),
            node_is="executor",
            batch_max=1,
            progress_s=0.25,
            progress_kept=1000,
            **self.gate,
        )


def _run_arm(hosts: ArmHosts, arm: SendingArm, times: TailTimes, seed: int, into: BacklogMeasurements) -> None:
    settings = arm.settings()
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as folder:
        flow = word_count(arm.load, arm.grouping, folder, seed)
        query = Query(flow, hosts.host(settings), arm.policy(), settings).start()
        backlogs = []
        try:
            time.sleep(times.warm_s)
            for _ in range(times.windows):
                seen = (query.lastProgress or {}).get("sequence", 0)
                time.sleep(times.window_s)
                backlogs.append(_largest_backlog(query.recentProgress, seen))
        finally:
            query.stop(now=True)
        rows = array("q")
        for file in Path(folder).glob("*.times"):
            rows.frombytes(file.read_bytes())
    into.values["max_backlog"].append(max(backlogs))
    for name, values in latencies(rows, times).items():
        into.values[name] += values


def _largest_backlog(progress: Sequence[Mapping[str, Any]], after: int) -> float:
    return float(
        max(
            task.get("uplinkMost", 0)
            for each in progress
            if each["sequence"] > after
            for task in each["tasks"]
            if task["operators"] == ["split"]
        )
    )


def latencies(rows: array[int], times: TailTimes) -> dict[str, list[float]]:
    """Means, words per second and the slowest split task's p99 of each window, from the times of words.

    Windows count from the first sentence; words belong to that in which their sentence was due, and to the throughput
    of that in which they were counted.
    """
    dues, counted, splits = (rows[place::ROW_PLACES] for place in range(ROW_PLACES))
    begin_ns = min(dues) + int(times.warm_s * _NS_PER_S)
    window_ns = int(times.window_s * _NS_PER_S)
    waits: list[list[list[int]]] = [[[] for _ in range(TASKS)] for _ in range(times.windows)]
    arrived = [0] * times.windows
    for due_ns, counted_ns, split in zip(dues, counted, splits, strict=True):
        window = (due_ns - begin_ns) // window_ns
        if 0 <= window < times.windows:
            waits[window][split].append(counted_ns - due_ns)
        window = (counted_ns - begin_ns) // window_ns
        if 0 <= window < times.windows:
            arrived[window] += 1
    return {
        "mean_ms": [sum(map(sum, each)) / sum(map(len, each)) / _NS_PER_MS for each in waits],
        "throughput": [count / times.window_s for count in arrived],
        "slowest_task_p99_ms": [
            max(sorted(task)[int(_P99 * len(task))] for task in each if task) / _NS_PER_MS for each in waits
        ],
    }


def rows(times: TailTimes, pace: Pace, only: str | None = None, *, spark: bool = True) -> list[Row]:
    """All cases, or one."""
    hosts = NodeHosts(lambda text: pace.step(text, 0), spark=spark)
    found: list[Row] = []
    try:
        for case in CASES if only is None else (only,):
            found += _SWEEPS[case](hosts, times, pace) if case in _SWEEPS else _compared(case, hosts, times, pace)
    finally:
        hosts.close()
    return found


def _measure(
    name: str, hosts: ArmHosts, arms: Mapping[str, SendingArm], times: TailTimes, pace: Pace
) -> dict[str, BacklogMeasurements]:
    """Run all arms in all repeats, every other repeat in the opposite order."""
    found = {label: BacklogMeasurements() for label in arms}
    for repeat in range(times.repeats):
        for label in list(arms)[:: 1 if repeat % 2 == 0 else -1]:
            pace.step(f"{name}, repeat {repeat + 1} of {times.repeats}: {label}", times.arm_s)
            _run_arm(hosts, arms[label], times, repeat, found[label])
    return found


def _compared(case: str, hosts: ArmHosts, times: TailTimes, pace: Pace) -> list[Row]:
    load = SentenceLoad(PER_S, in_turn=case == "in_turn")
    grouping = "shuffle" if case in {"shuffle", "in_turn"} else "fields"
    routing = "partial_key" if case == "partial_key" else "even"
    arms = {name: SendingArm(name, load, grouping, routing) for name in (FIFO, ROUND_ROBIN, LBF)}
    try:
        arms[LBF].policy()
    except ConfigError as error:
        return [missing_row(case, name, _METRICS[name][0], error.message, _METRICS[name][1]) for name in _METRICS]
    measured = _measure(case, hosts, arms, _sweep(times) if case == "in_turn" else times, pace)
    found = [row for base in (ROUND_ROBIN, FIFO) for row in _against(case, measured, base, barred=True)]
    return [*found, carried(case, measured, load)]


def carried(case: str, measured: Mapping[str, BacklogMeasurements], load: SentenceLoad) -> Row:
    """The least share of the words offered that any arm carried: a machine that is too slow shows here only."""
    least = min(value for each in measured.values() for value in each.values["throughput"]) / load.words_per_s
    return make_row(
        case, "carried", "of offered", [least], better="higher", baseline="offered", base=[1.0], bar=_CARRIED_MIN
    )  # fmt: skip


def _against(
    case: str, measured: Mapping[str, BacklogMeasurements], base: str, *, barred: bool, ours: str = LBF
) -> list[Row]:
    return [
        make_row(
            case, name, unit, measured[ours].values[name],
            better=better, baseline=base, base=measured[base].values[name], bar=bars.get(base) if barred else None,
            paper=_PAPER_PARTIAL.get(name, paper) if case == "partial_key" else paper,
        )
        for name, (unit, better, bars, paper) in _METRICS.items()
    ]  # fmt: skip


def _taus(hosts: ArmHosts, times: TailTimes, pace: Pace) -> list[Row]:
    """Grants that only tau ends, against round robin with the default quantum."""
    load = SentenceLoad(PER_S)
    free = {tau: {"gate_tau_ms": tau, "gate_quantum": _NO_QUANTUM} for tau in _TAUS_MS}
    arms = {ROUND_ROBIN: SendingArm(ROUND_ROBIN, load), "10": SendingArm(LBF, load)}
    arms |= {f"{tau:g}": SendingArm(LBF, load, gate=gate) for tau, gate in free.items()}
    measured = _measure("tau", hosts, arms, _sweep(times), pace)
    found = _against("tau=10ms,quantum=4", measured, ROUND_ROBIN, barred=False, ours="10")
    for tau in _TAUS_MS:
        found += _against(f"tau={tau:g}ms", measured, ROUND_ROBIN, barred=False, ours=f"{tau:g}")
    return found


def _words(hosts: ArmHosts, times: TailTimes, pace: Pace) -> list[Row]:
    """Sentences of at most 10, 20 and 30 words; the link is as full with each."""
    found: list[Row] = []
    for words_max in _WORDS:
        arms = {name: SendingArm(name, SentenceLoad(PER_S, words_max)) for name in (ROUND_ROBIN, LBF)}
        case = f"words={words_max}"
        found += _against(case, _measure(case, hosts, arms, _sweep(times), pace), ROUND_ROBIN, barred=False)
    return found


_SWEEPS: dict[str, Callable[[ArmHosts, TailTimes, Pace], list[Row]]] = {"tau": _taus, "words": _words}


BENCH = Bench("hone", Timed(QUICK, FULL, planned_s, rows, NOTES), CASES)
