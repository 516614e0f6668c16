"""The benchmark's parts and their rows, and its command line.

``python -m tailrace_bench.lever`` calls ``main``, ``tailrace bench lever`` finds ``BENCH``.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.errors import nearest
from tailrace.lever.plans import DEFAULT_PLAN
from tailrace_bench.bench import Bench, BenchOutcome

from . import scenarios, sweeps
from .arms import ARMS, FULL, PARTS, QUICK
from .cluster import HOSTS
from .errors import LeverBenchError
from .measure import measure, tell, testbed
from .rows import paired, plain, task_figures
from .workloads import CASES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace_bench.bench import BenchRequest

    from .arms import Size
    from .measure import Testbed
    from .rows import Round, Row

BASELINES = ("default", "even", "small_tasks", "speculation")
BARS = {"default": 0.60, "speculation": 0.75, "small_tasks": 0.75}


def case_rows(case: str, found: dict[str, list[Round]], size: Size) -> list[Row]:
    """Compare the default plan with every baseline, then every other arm with default Spark."""
    known = CASES[case]
    rows = []
    own = found[DEFAULT_PLAN]
    for baseline in BASELINES:
        if baseline not in found:
            continue
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


def no_straggler_rows(running: Testbed, size: Size) -> list[Row]:
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
            raise LeverBenchError(f"The benchmark of Lever has no part {part!r}.", nearest(part, PARTS))
    rows: list[Row] = []
    if set(wanted) != {"helpers"}:
        with testbed() as running:
            for part in wanted:
                rows += _part(running, part, size, plots)
    return rows + (sweeps.helpers(plots) if "helpers" in wanted else [])


def _measure(request: BenchRequest) -> BenchOutcome:
    return BenchOutcome(run(quick=request.quick, cases=(request.only,) if request.only else (), plots=request.plots))


BENCH = Bench("lever", _measure)


def _part(running: Testbed, part: str, size: Size, plots: Path | None) -> list[Row]:
    if part in CASES:
        return case_rows(part, measure(running, part, size), size)
    if part == "no_straggler":
        return no_straggler_rows(running, size)
    if part == "convergence":
        return scenarios.run(running, size, plots)
    return sweeps.intervals(running, size, plots) if part == "intervals" else []


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, run, print and write."""
    parser = argparse.ArgumentParser(prog="python -m tailrace_bench.lever", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="word count only, 1 s trigger, under 6 minutes")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--plots", type=Path, help="write plots into this folder (needs matplotlib)")
    parser.add_argument("--cases", nargs="*", default=(), choices=PARTS, help="these parts only")
    names = [arm.name for arm in ARMS]
    parser.add_argument("--arms", nargs="*", default=names, choices=names, help="these arms, default and damped too")
    parser.add_argument("--rounds", type=int, help="another number of rounds; five are needed to judge a bar")
    options = parser.parse_args(arguments)
    # A polite end must not leave a cluster behind, let alone stopped processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    size = QUICK if options.quick else FULL
    arms = tuple(arm for arm in size.arms if arm.name in {"default", DEFAULT_PLAN, *options.arms})
    size = replace(size, arms=arms, rounds=options.rounds or size.rounds)
    rows = run(size=size, cases=options.cases, plots=options.plots)
    for row in rows:
        bar = "" if row["bar"] is None else f"  bar {row['bar']} {'ok' if row['ok'] else 'MISSED'}"
        tell(
            f"{row['case']:28} {row['metric']:22} {row['value']:>10} against {row['baseline']} "
            f"{row['baseline_value']}: {row['ratio']}{bar}"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
