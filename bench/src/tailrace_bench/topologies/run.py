"""Turns measured arms into rows: times against the baselines, bytes between nodes against what was predicted."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from tailrace_bench.bench import Bench, BenchOutcome
from tailrace_bench.measurement.pace import Pace
from tailrace_bench.reporting.rows import limit_row, make_row, paired_ratios

from . import together
from .arms import planned_s, run_case
from .cases import BETTER_BARS, CASES, FULL, LINK_DELAY_MS, OFF_MAX, PLAIN, QUICK, STROMAX, TURBOSTREAM

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tailrace_bench.bench import BenchRequest
    from tailrace_bench.reporting.rows import Row

    from .arms import TopologyMeasurements
    from .cases import TopologyCase

NOTES = [
    f"Nodes are groups of processes with host names of their own; TCP between them takes {LINK_DELAY_MS} ms more.",
    (
        "Tasks are the papers' divided by 2 to 2.5 (LP 4/20/12/12, TSSA 4 and 8 each, TT 4/8/8, SOL 5 each, "
        "ThroughputTest 8/8). Rates are found as StroMAX did, raised until the baseline keeps half of the processors "
        "busy, or TurboStream's: 5,000 tuples/s for SOL, and the least it shows, 1,000, for ThroughputTest."
    ),
    (
        "tpt_ms is the mean until a tuple is complete (StroMAX); for SOL and ThroughputTest until the end of the last "
        "bolt, without the acks (as in TurboStream's Table I), and complete_ms stands beside it."
    ),
    (
        "stromax and turbostream run with node-local shuffle, [turbostream,plain] without; within a node the ring is "
        "used, but for [round_robin,tcp]."
    ),
    (
        "Bytes are those of tuples without acks, predicted from what the baseline's tuples weigh, the placement and "
        "the routing rule."
    ),
]


def run(request: BenchRequest) -> BenchOutcome:
    """Give rows and notes; the one case asked for is a topology, or ``together``."""
    only = request.only
    times = QUICK if request.quick else FULL
    course = together.QUICK if request.quick else together.FULL
    chosen = [case for name, case in CASES.items() if only in {None, name}]
    found: list[Row] = []
    notes = list(NOTES)
    with_course = only in {None, together.NAME}
    with Pace(request.console, sum(planned_s(case, times) for case in chosen) + with_course * course.total_s) as pace:
        for case in chosen:
            measured = run_case(case, times, pace)
            found += time_rows(case, measured) + byte_rows(case, measured)
            if case.until_busy:
                notes.append(f"{case.name} was offered {measured[PLAIN].per_s:,.0f} tuples/s.")
        if with_course:
            rows, more = together.rows(course, pace, request.plots)
            found, notes = found + rows, notes + more
    return BenchOutcome(found, notes)


def time_rows(case: TopologyCase, measured: Mapping[str, TopologyMeasurements]) -> list[Row]:
    """Every arm against every baseline but itself."""
    rows = []
    tpt = {name: arm.sink_ms if case.at_sink else arm.complete_ms for name, arm in measured.items()}
    better = _better(tpt) if case.name in BETTER_BARS else ""
    for name in measured:
        for baseline in case.baselines:
            if name == baseline:
                continue
            bar = case.bars.get((name, baseline))
            if name == better and baseline == PLAIN:
                bar = BETTER_BARS[case.name]
            paper = case.papers.get((name, baseline))
            rows.append(
                make_row(
                    f"{case.name},{name}", "tpt_ms", "ms", tpt[name],
                    better="lower", baseline=baseline, base=tpt[baseline], bar=bar, paper=paper,
                )
            )  # fmt: skip
            if case.at_sink:
                values, base = measured[name].complete_ms, measured[baseline].complete_ms
                rows.append(
                    make_row(
                        f"{case.name},{name}", "complete_ms", "ms", values, better="lower", baseline=baseline, base=base
                    )
                )
    return rows


def _better(tpt: Mapping[str, Sequence[float]]) -> str:
    """The paper policy with the lower median ratio to the plain baseline."""
    return min((STROMAX, TURBOSTREAM), key=lambda name: statistics.median(paired_ratios(tpt[name], tpt[PLAIN])))


def byte_rows(case: TopologyCase, measured: Mapping[str, TopologyMeasurements]) -> list[Row]:
    """Bytes between nodes per tuple read, and how far off the prediction they are."""
    if case.nodes == 1:
        return []
    plain = measured[case.baselines[0]].progress
    rows = []
    for name, arm in measured.items():
        found = _crossed(arm.progress) / max(1, arm.progress["read"])
        due = _predicted(arm.progress, plain)
        off = abs(found / due - 1) if due else float(found > 0)
        rows += [
            make_row(
                f"{case.name},{name}", "inter_node_bytes", "B/tuple", [found],
                better="lower", baseline="predicted", base=[due],
            ),
            limit_row(f"{case.name},{name}", "off_predicted", "share", [off], OFF_MAX),
        ]  # fmt: skip
    return rows


def _crossed(progress: Mapping[str, Any]) -> float:
    return float(sum(row["bytes"]["interNode"] for row in progress["traffic"]))


def _predicted(progress: Mapping[str, Any], plain: Mapping[str, Any]) -> float:
    """Bytes per tuple that this placement and rule should send between nodes, at what the plain arm's tuples weigh."""
    due = 0.0
    for row, base in zip(progress["traffic"], plain["traffic"], strict=True):
        encoded = base["tuples"]["intraNode"] + base["tuples"]["interNode"]
        size = sum(base["bytes"].values()) / max(1, encoded)
        per_root = sum(base["tuples"].values()) / max(1, plain["read"])
        kinds = row["predicted"]["tuples"]
        due += per_root * size * kinds["interNode"] / max(1e-9, sum(kinds.values()))
    return due


BENCH = Bench("topologies", run, (*CASES, together.NAME))
