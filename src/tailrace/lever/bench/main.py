"""Runs the arms of the benchmark in turn, round after round, and makes rows of what they took.

Called by ``python -m tailrace.lever.bench`` and ``tailrace bench lever``. Two applications stay alive for the whole
run, one with speculation and one without, so that arms can be interleaved without starting Spark again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import signal
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.errors import nearest

from ..errors import BenchError
from ..explain.eventlog import read_event_log
from ..plans import DEFAULT_PLAN
from ..session import speculation_settings
from . import scenarios, sweeps
from .cluster import HOSTS, standalone
from .driver import Driver
from .rows import Round, Row, paired, plain, task_figures
from .slow import Slowdown
from .workloads import CASES, Load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SLOW_HOST, SLOW_FACTOR = HOSTS[-1], 4.0
PAPER_SPECULATION = {
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.0",
    "spark.speculation.minTaskRuntime": "100ms",
}
BARS = {"default": 0.60, "speculation": 0.75, "small_tasks": 0.75}


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to run a case."""

    name: str
    plan: str = ""
    state: bool = True
    """Whether the plan also places state."""
    speculation: bool = False
    partitions_per_core: int = 1

    @property
    def live(self) -> dict[str, str]:
        """Settings that are read when a stage starts."""
        if not self.speculation:
            return {}
        return speculation_settings() if self.plan else PAPER_SPECULATION


ARMS = (
    Arm("default"),
    Arm("even", plan="even"),
    Arm("small_tasks", partitions_per_core=8),
    Arm("speculation", speculation=True),
    Arm("lever", plan="lever"),
    Arm("proportional", plan="proportional"),
    Arm("damped", plan="damped"),
    Arm("lever_speculation", plan=DEFAULT_PLAN, speculation=True),
)


PARTS = (*CASES, "no_straggler", "convergence", "intervals", "helpers")
"""What can be asked for alone: the cases with a slow executor, the one without, and the studies."""


@dataclass(frozen=True, slots=True)
class Size:
    """How long and how large a run is."""

    load: Load
    rounds: int
    warm: int
    batches: int
    parts: tuple[str, ...]
    warm_up: int = 3
    """Batches of an arm before its first round: the first is even, the next let a plan settle."""
    before: int = 6
    after: int = 10
    """Batches before and after the change in a study of convergence."""
    lengths_s: tuple[float, ...] = sweeps.INTERVALS_S


FULL = Size(Load(2000, 1400, len(HOSTS), 2.0), rounds=5, warm=2, batches=5, parts=PARTS)
QUICK = Size(Load(800, 3200, len(HOSTS), 1.0), rounds=5, warm=0, batches=2, parts=("wordcount", "helpers"), warm_up=2)
"""Half the trigger interval, fewer and dearer records, few batches; everything else as in the full run."""


class Bench:
    """The cluster, its two applications and the slow host."""

    def __init__(self, plain_app: Driver, speculating: Driver, slowdown: Slowdown, work: Path) -> None:
        self._drivers = {False: plain_app, True: speculating}
        self.slowdown = slowdown
        self._work = work
        self.events = work / "events"

    def batches(self, case: str, arm: Arm, load: Load, count: int) -> dict[str, Any]:
        """Run ``count`` batches of an arm; its query and what Lever learned go on from the last call."""
        checkpoint = self._work / f"{case}-{arm.name}"
        return self._drivers[arm.speculation].ask(
            case=case,
            plan=arm.plan,
            state=arm.state,
            live=arm.live,
            load=asdict(replace(load, partitions=load.partitions * arm.partitions_per_core)),
            checkpoint=str(checkpoint),
            batches=count,
        )


@contextlib.contextmanager
def bench() -> Iterator[Bench]:
    """Start everything; stop everything."""
    with contextlib.ExitStack() as stack:
        # Cleaning up takes seconds; an impatient SIGTERM meanwhile must not leave half of the cluster behind.
        stack.callback(_on_sigterm, signal.getsignal(signal.SIGTERM))
        work = Path(tempfile.mkdtemp(prefix="tailrace-lever-bench-"))
        stack.callback(shutil.rmtree, work, ignore_errors=True)
        (work / "events").mkdir()
        master = stack.enter_context(standalone())
        drivers = [Driver(master, work / "events", speculation=kind) for kind in (False, True)]
        for driver in drivers:
            stack.callback(driver.close)
        for driver in drivers:
            driver.answer()
        slowdown = stack.enter_context(Slowdown())
        stack.callback(_on_sigterm, signal.SIG_IGN)
        yield Bench(drivers[0], drivers[1], slowdown, work)


def _on_sigterm(handler: Any) -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def measure(
    running: Bench, case: str, size: Size, arms: Sequence[Arm] = ARMS, *, name: str = "", slow: bool = True
) -> dict[str, list[Round]]:
    """Run all arms round after round; the first batches of each turn warm up and are not counted.

    Runs of one case under another ``name`` have queries of their own and learn from the beginning.
    """
    name = name or case
    found: dict[str, list[Round]] = {arm.name: [] for arm in arms}
    batches: dict[str, dict[str, set[int]]] = {arm.name: {} for arm in arms}
    running.slowdown.set({SLOW_HOST: SLOW_FACTOR} if slow else {})
    for number in range(0 if size.warm_up else 1, size.rounds + 1):
        for arm in arms:
            _tell(f"{name}: round {number} of {size.rounds}, {arm.name}")
            # Round 0 warms up executors, compilers and the planners' memory.
            count = size.warm + size.batches if number else size.warm_up
            answer = running.batches(case, replace(arm, name=f"{name}-{arm.name}"), size.load, count)
            if number:
                measured = answer["batches"][size.warm :]
                found[arm.name].append(Round([float(ms) for _, ms in measured]))
                batches[arm.name].setdefault(answer["query"], set()).update(batch for batch, _ in measured)
    running.slowdown.set({})
    _add_stages(running.events, found, batches)
    return found


def _add_stages(events: Path, found: dict[str, list[Round]], batches: dict[str, dict[str, set[int]]]) -> None:
    stages = [stage for log in sorted(events.iterdir()) for stage in read_event_log(log)]
    for arm, wanted in batches.items():
        found[arm][0].stages = [s for s in stages if s.query in wanted and s.batch in wanted[s.query]]


def case_rows(case: str, found: dict[str, list[Round]], size: Size) -> list[Row]:
    """Compare the default plan with every baseline, then every other arm with default Spark."""
    known = CASES[case]
    rows = []
    own = found[DEFAULT_PLAN]
    for baseline in ("default", "even", "small_tasks", "speculation"):
        base = found[baseline]
        bar = BARS.get(baseline) if known.barred else None
        paper = known.paper if baseline == "default" else ""
        means, base_means = [r.mean_ms for r in own], [r.mean_ms for r in base]
        rows.append(paired(case, "batch_ms_mean", baseline, means, base_means, bar=bar, paper=paper))
        tails, base_tails = [r.p99_ms for r in own], [r.p99_ms for r in base]
        rows.append(paired(case, "batch_ms_p99", baseline, tails, base_tails, bar=bar))
    for arm, rounds in found.items():
        if arm not in {DEFAULT_PLAN, "default"}:
            means, base_means = [r.mean_ms for r in rounds], [r.mean_ms for r in found["default"]]
            rows.append(paired(f"{case}.{arm}", "batch_ms_mean", "default", means, base_means))
    figures = {arm: task_figures(rounds, size.load.trigger_s, len(HOSTS)) for arm, rounds in found.items()}
    papers = {
        "local_share": ("higher", "96 %"),
        "waiting_share": ("lower", "8.7 %"),
        "cpu_utilisation": ("higher", "52.3 %"),
    }
    for metric, (better, paper) in papers.items():
        value, base_value = figures[DEFAULT_PLAN][metric], figures["default"][metric]
        rows.append(plain(case, metric, "share", value, "default", base_value, better=better, paper=paper))
    return rows


def no_straggler_rows(running: Bench, size: Size) -> list[Row]:
    """Hold that Lever costs nothing where nobody is slow."""
    arms = [arm for arm in ARMS if arm.name in {"default", DEFAULT_PLAN}]
    found = measure(running, "wordcount", size, arms, name="no_straggler", slow=False)
    own, base = ([r.mean_ms for r in found[name]] for name in (DEFAULT_PLAN, "default"))
    return [paired("no_straggler", "batch_ms_mean", "default", own, base, bar=1.05)]


def run(
    *, quick: bool = False, cases: Sequence[str] = (), plots: Path | None = None, size: Size | None = None
) -> list[Row]:
    """Run the benchmark, or the named parts of it, and return its rows."""
    size = size or (QUICK if quick else FULL)
    wanted = tuple(cases) or size.parts
    for part in wanted:
        if part not in PARTS:
            raise BenchError(f"The benchmark of Lever has no part {part!r}.", nearest(part, PARTS))
    rows: list[Row] = []
    if set(wanted) != {"helpers"}:
        with bench() as running:
            for part in wanted:
                rows += _part(running, part, size, plots)
    return rows + (sweeps.helpers(plots) if "helpers" in wanted else [])


def _part(running: Bench, part: str, size: Size, plots: Path | None) -> list[Row]:
    if part in CASES:
        return case_rows(part, measure(running, part, size), size)
    if part == "no_straggler":
        return no_straggler_rows(running, size)
    if part == "convergence":
        return scenarios.run(running, size, plots)
    return sweeps.intervals(running, size, plots) if part == "intervals" else []


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, run, print and write."""
    parser = argparse.ArgumentParser(prog="python -m tailrace.lever.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="word count only, 1 s trigger, under 6 minutes")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--plots", type=Path, help="write plots into this folder (needs matplotlib)")
    parser.add_argument("--cases", nargs="*", default=(), choices=PARTS, help="these parts only")
    options = parser.parse_args(arguments)
    # A polite end must not leave a cluster behind, let alone stopped processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    rows = run(quick=options.quick, cases=options.cases, plots=options.plots)
    for row in rows:
        bar = "" if row["bar"] is None else f"  bar {row['bar']} {'ok' if row['ok'] else 'MISSED'}"
        _tell(
            f"{row['case']:28} {row['metric']:22} {row['value']:>10} against {row['baseline']} "
            f"{row['baseline_value']}: {row['ratio']}{bar}"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


def _tell(line: str) -> None:
    sys.stderr.write(line + "\n")
