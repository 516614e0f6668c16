"""Hone: the slotted model of its section 4.4 (``slots``), and its word count behind a limited uplink (``hone``)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace.sending.gate import GateSettings

from ..comparison import ComparisonRow, PlotPanel, SimulationCase, SimulationReport, compare
from ..model import Policies
from ..slots import SLOTS, arrivals, run_slots
from .topologies import word_count

if TYPE_CHECKING:
    from collections.abc import Callable

GATES = ("lbf", "round_robin", "idling_round_robin", "fifo")
RATES_PER_S = (500, 750, 900, 1000, 1250, 1500, 2000, 3000, 5000)
RATES_QUICK_PER_S = (500, 750, 1000, 2000, 5000)
QUEUES = (10, 20, 40, 60, 80, 100)
QUEUES_QUICK = (10, 20, 40, 100)
#: Title and axis of each metric that is drawn.
_DRAWN = {
    "max_backlog": ("largest backlog", "largest backlog, tuples"),
    "mean_delay_ms": ("mean delay", "mean delay, ms"),
    "jain": ("Jain's index", "Jain's index of the backlogs, 0 to 1"),
}


def slots(*, quick: bool, seeds: int, progress: Callable[[str, float], None]) -> SimulationReport:
    """Largest backlog, mean delay and fairness over rate and over the number of queues (figures 6 to 8)."""
    del seeds  # the paper shows single runs
    sweeps = [(10, rate) for rate in (RATES_QUICK_PER_S if quick else RATES_PER_S)]
    sweeps += [(queues, 1000) for queues in (QUEUES_QUICK if quick else QUEUES)[1:]]
    rows = []
    for done, (queues, rate) in enumerate(sweeps):
        progress(f"{queues} queues, {rate}/s", done / len(sweeps))
        trace = arrivals(queues, rate, SLOTS, 1)
        found = {gate: run_slots(gate, trace) for gate in GATES}
        for gate, run in found.items():
            figures = {
                "max_backlog": float(run.max_backlog),
                "mean_delay_ms": run.mean_delay_ms,
                "jain": sum(run.jain) / len(run.jain),
                # The paper's factor, against its own round robin, at the sampled slot where it is largest.
                "jain_best": max(a / b for a, b in zip(run.jain, found[GATES[2]].jain, strict=True)),
            }
            rows.append(ComparisonRow(f"queues={queues},rate={rate}", gate, figures))
    by_case = {(row.case, row.arm): row.figures for row in rows}
    rows = [
        replace(
            row,
            ratios={
                base: {name: value / by_case[row.case, base][name] for name, value in row.figures.items()}
                for base in GATES[1:]
                if row.arm == "lbf"
            },
        )
        for row in rows
    ]
    panels = [
        PlotPanel(
            f"{title} over {over}", label, y_label,
            {
                gate: [(at, by_case[f"queues={queues},rate={rate}", gate][metric])
                       for queues, rate in sweeps if varies(queues, rate) for at in [rate if over_rate else queues]]
                for gate in GATES
            },
            log_y=metric != "jain",
        )
        for over, label, over_rate, varies in (
            ("the rate", "rate of each of 10 queues, tuples/s", True, lambda queues, _: queues == 10),  # noqa: PLR2004
            ("queues", "queues of 1,000 tuples/s each", False, lambda _, rate: rate == 1000),  # noqa: PLR2004
        )
        for metric, (title, y_label) in _DRAWN.items()
    ]  # fmt: skip
    return SimulationReport(
        "slots", slots.__doc__ or "", rows, panels, ("max_backlog", "mean_delay_ms", "jain"), runs=1
    )


def hone(*, quick: bool, seeds: int, progress: Callable[[str, float], None]) -> SimulationReport:
    """Word count with a limited uplink at 90 % use: gates, tau, words per tuple; a fuller link, steady arrivals."""
    seconds = 6.0 if quick else 20.0
    arms = {
        "fifo": Policies(sending="fifo"),
        "round_robin": Policies(sending="round_robin"),
        "lbf": Policies(sending="lbf"),
    }
    taus = {
        **{name: arms[name] for name in ("fifo", "round_robin")},
        **{
            f"lbf tau={tau}ms": Policies(sending="lbf", gate=GateSettings(tau_ns=tau * 1_000_000, quantum=1 << 30))
            for tau in (1, 10, 50, 130)
        },
    }
    cases = [
        SimulationCase("poisson at each task", word_count(dealt="random"), seconds, 1.0, arms),
        SimulationCase("shuffle", word_count(), seconds, 1.0, arms),
        SimulationCase("fields", word_count(grouping="fields"), seconds, 1.0, arms),
        SimulationCase(
            "partial_key", word_count(grouping="fields"), seconds, 1.0,
            {name: replace(policies, keyed="partial_key") for name, policies in arms.items()},
        ),
        *(SimulationCase(f"words={words}", word_count(words_max=words), seconds, 1.0, arms) for words in (10, 20, 30)),
        SimulationCase("tau", word_count(), seconds, 1.0, taus),
        SimulationCase("use=0.95", word_count(use=0.95), seconds, 1.0, arms),
        SimulationCase("periodic arrivals", word_count(arrivals="periodic"), seconds, 1.0, arms),
    ]  # fmt: skip
    columns = ("max_backlog", "tuple_wait_ms", "mean_ms", "p99_ms", "slowest_task_p99_ms", "throughput_per_s")
    found = compare(
        "hone", hone.__doc__ or "", cases, arms, columns,
        baselines=("round_robin", "fifo"), seeds=seeds, progress=progress,
    )  # fmt: skip
    return replace(found, panels=[*found.panels, _over_tau(found)])


def _over_tau(report: SimulationReport) -> PlotPanel:
    """Mean latency under grants of ever longer intervals, beside the baselines, which have none."""
    means = {row.arm: row.figures["mean_ms"] for row in report.rows if row.case == "tau"}
    swept = [(float(arm.partition("tau=")[2].removesuffix("ms")), mean) for arm, mean in means.items() if "tau=" in arm]
    lines = {"lbf": swept}
    for arm in ("fifo", "round_robin"):
        lines[arm] = [(tau, means[arm]) for tau, _ in swept]
    return PlotPanel("latency over tau", "scheduling interval, ms", "mean latency of a sentence, ms", lines)
