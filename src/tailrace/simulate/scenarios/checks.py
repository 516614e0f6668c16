"""Is the simulator right, and is it fast enough: M/M/c against Erlang-C, and a thousand nodes."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from ..comparison import ComparisonRow, PlotPanel, SimulationReport
from ..distributions import Exponential
from ..engine import Engine
from ..model import Model, NodeModel, Phase, Policies, SourceModel, StageModel
from ..theory import mean_wait_s
from .topologies import US_PER_S, even_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SERVERS = (1, 2, 5, 10, 20)
USES = (0.5, 0.7, 0.8, 0.9)
_SERVICES_PER_S = 1000.0


def queue(servers: int, use: float) -> Model:
    """One shared queue before so many servers."""
    stage = StageModel("servers", servers, Exponential(US_PER_S / _SERVICES_PER_S))
    return Model((NodeModel(),), SourceModel(1, use * servers * _SERVICES_PER_S), (stage,))


def mmc(*, quick: bool, seeds: int, progress: Callable[[str, float], None]) -> SimulationReport:
    """Mean waits of M/M/c under shared inboxes, beside Erlang-C, and by how many standard errors they differ."""
    # Where few tuples wait (many servers, low use) a mean wait takes millions of tuples; the mean time in the system,
    # which is what a user sees, is near its value long before.
    tuples = 40_000 if quick else 400_000
    rows, lines = [], {}
    for done, use in enumerate(USES):
        measured, exact = [], []
        for servers in SERVERS:
            progress(f"{servers} servers at {use:.0%}", done / len(USES))
            model = queue(servers, use)
            waits = [
                Engine(model, Policies(inbox="shared"), seed).run(tuples / model.source.rate_per_s)
                for seed in range(1, seeds + 1)
            ]
            means_ms = [result.stages["servers"].mean_wait_ms for result in waits]
            wait_ms = statistics.fmean(means_ms)
            theory_ms = 1000 * mean_wait_s(servers, model.source.rate_per_s, _SERVICES_PER_S)
            whole_ms = 1000 / _SERVICES_PER_S + theory_ms
            figures = {
                "mean_wait_ms": wait_ms,
                "erlang_c_ms": theory_ms,
                "error": wait_ms / theory_ms - 1,
                "in_system_error": statistics.fmean(result.mean_ms for result in waits) / whole_ms - 1,
            }
            if seeds > 1:
                figures["standard_errors"] = (wait_ms - theory_ms) / (statistics.stdev(means_ms) / seeds**0.5)
            rows.append(ComparisonRow(f"c={servers},rho={use}", "shared", figures))
            measured.append((float(servers), wait_ms))
            exact.append((float(servers), theory_ms))
        lines[f"simulated, rho {use}"], lines[f"Erlang-C, rho {use}"] = measured, exact
    panel = PlotPanel("M/M/c: mean wait", "servers", "mean wait, ms", lines, log_x=True, log_y=True)
    shown = ("mean_wait_ms", "erlang_c_ms", "error", "in_system_error", *(("standard_errors",) if seeds > 1 else ()))
    return SimulationReport("mmc", mmc.__doc__ or "", rows, [panel], shown)


def large(*, quick: bool, seeds: int, progress: Callable[[str, float], None]) -> SimulationReport:
    """1,000 nodes, 10,000 tasks, 20 million tuple-hops (quick: a fiftieth) while load and speeds change."""
    del seeds
    hops, operators, tasks, rate = (400_000 if quick else 20_200_000), 9, 1000, 250.0
    seconds = hops / operators / (rate * tasks)
    names = [f"operator{index}" for index in range(operators)]
    stages = tuple(
        StageModel(name, tasks, Exponential(2000.0), (names[index - 1] if index else "source",))
        for index, name in enumerate(names)
    )
    # A third of the time less comes, a third of it more; from half time on every tenth node is slower by a third.
    load = (Phase(0.0, seconds / 3, 0.6), Phase(seconds / 3, 2 * seconds / 3, 1.4))
    slower = (Phase(seconds / 2, seconds, 2 / 3),)
    nodes = tuple(replace(node, phases=() if number % 10 else slower) for number, node in enumerate(even_nodes(1000)))
    model = Model(nodes, SourceModel(1000, rate, phases=load), stages)
    began_s = time.perf_counter()
    result = Engine(model, Policies(), 1).run(seconds, 0.0, lambda part: progress("1,000 nodes", part))
    took_s = time.perf_counter() - began_s
    figures = {"hops": float(result.hops), "wall_s": took_s, "us_per_hop": took_s / result.hops * 1e6}
    row = ComparisonRow("nodes=1000,tasks=10000", "even", figures | result.figures())
    latency = PlotPanel(
        "latency while load and speeds change", "time, s", "latency, ms", {"roots": _means(result.timeline)}
    )
    columns = ("hops", "wall_s", "us_per_hop", "p50_ms", "p99_ms")
    return SimulationReport("large", large.__doc__ or "", [row], [latency], columns, runs=1)


def _means(timeline: Sequence[tuple[float, float]], points: int = 60) -> list[tuple[float, float]]:
    """Means of neighbouring points, few enough to draw."""
    size = max(1, len(timeline) // points)
    groups = [timeline[at : at + size] for at in range(0, len(timeline), size)]
    return [(sum(x for x, _ in each) / len(each), sum(y for _, y in each) / len(each)) for each in groups]
