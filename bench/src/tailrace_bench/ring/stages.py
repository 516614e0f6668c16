"""TurboStream's Table I: how long a tuple of the word count takes from one operator to the next, by where they run.

Source, split and sum are one task each and never chained, so that there is a hand-over to measure; with two workers the
split stands on the other one. Two nodes are two workers that talk over TCP. Each tuple carries when it was
handed over; all processes of a machine share the clock.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.config import Policy, Settings
from tailrace.coordinator.query import Query
from tailrace.testing.processes import ProcessHost
from tailrace_bench.arms.base import wait_for
from tailrace_bench.errors import ArmError
from tailrace_bench.flows import values_of
from tailrace_bench.measurement import plan as times
from tailrace_bench.measurement import rounds
from tailrace_bench.peers.panel import LEAD_NS, Panel
from tailrace_bench.peers.work import WORDS_PER_SENTENCE
from tailrace_bench.reporting.rows import make_row

from .stage_flow import HOPS, HopTally, draw

if TYPE_CHECKING:
    from tailrace_bench.measurement.pace import Pace
    from tailrace_bench.reporting.rows import Row

    from .cases import RingTimes

PER_S = 2000
_REST_S_MAX = 30.0


class WorkerLayout(NamedTuple):
    """One line of the table: its workers, how they talk, and the paper's milliseconds and share."""

    hosts: list[str]
    transport: str
    paper_ms: tuple[float, float]
    paper_share: str


LAYOUTS = {
    "2N2W": WorkerLayout(["127.0.0.1", "127.0.0.2"], "tcp", (4.46, 6.40), "86.88 %"),
    "1N2W": WorkerLayout(["127.0.0.1"] * 2, "auto", (3.58, 5.22), "86.66 %"),
    "1N1W": WorkerLayout(["127.0.0.1"], "auto", (0.24, 0.47), "not given"),
}


def planned_s(plan: RingTimes) -> float:
    """About how long it takes."""
    return len(LAYOUTS) * (times.OPEN_S + (plan.stages_repeats + 1) * (plan.stages_s + times.OFFER_EXTRA_S))


class _StagesRun:
    """One layout's query with its panel and tally."""

    def __init__(self, name: str, folder: Path) -> None:
        layout = LAYOUTS[name]
        self.panel = Panel(folder / f"{name}.panel", create=True)
        self.tally = HopTally(str(folder / f"{name}.tally"), create=True)
        flow = draw(self.panel.path, self.tally.path, values_of("wordcount"))
        host = ProcessHost(len(layout.hosts), hosts=layout.hosts)
        self.query = Query(flow, host, Policy(chaining="off"), Settings(transport=layout.transport)).start()
        self._name = name

    def offer(self, seconds: float) -> dict[str, float]:
        """Mean milliseconds of each hand-over and of the whole way, and the hand-overs' share of it."""
        before = self.tally.read()
        _, sentences = self.panel.go(PER_S, seconds)
        time.sleep(LEAD_NS / 1e9 + seconds)
        words = before["total"][1] + sentences * WORDS_PER_SENTENCE
        if not wait_for(lambda: self.tally.read()["total"][1] >= words, _REST_S_MAX):
            raise ArmError(f"{self._name} was to finish {words:,} words in {_REST_S_MAX:.0f} s.", "Look at the load.")
        now = self.tally.read()
        mean_ms = {
            name: (now[name][0] - before[name][0]) / max(1, now[name][1] - before[name][1]) / 1e6 for name in now
        }
        return mean_ms | {"share": sum(mean_ms[hop] for hop in HOPS) / mean_ms["total"]}

    def close(self) -> None:
        self.query.stop(now=True)


def rows(plan: RingTimes, pace: Pace) -> list[Row]:
    """All three layouts, in turns."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tailrace-bench-")))
        runs = {}
        for name in LAYOUTS:
            pace.step(f"Table I: starting {name}", times.OPEN_S)
            runs[name] = _StagesRun(name, folder)
            stack.callback(runs[name].close)
            runs[name].offer(plan.stages_s)

        def offer(name: str) -> dict[str, float]:
            pace.step(f"Table I: {name}", plan.stages_s + times.OFFER_EXTRA_S)
            return runs[name].offer(plan.stages_s)

        found = rounds.take(list(LAYOUTS), plan.stages_repeats, offer, pace)
    return stage_rows(found)


def stage_rows(found: dict[str, list[dict[str, float]]]) -> list[Row]:
    """One line per layout and hand-over, against all in one worker; no bars, the paper's figures beside them."""
    made = []
    for name, layout in LAYOUTS.items():
        papers: dict[str, Any] = dict(zip(HOPS, layout.paper_ms, strict=True))
        for hop in (*HOPS, "total"):
            values = [each[hop] for each in found[name]]
            base = [each[hop] for each in found["1N1W"]]
            made.append(
                make_row(
                    name, f"{hop}_ms", f"ms at {PER_S}/s", values,
                    better="lower", baseline="1N1W", base=base, paper=papers.get(hop),
                )
            )  # fmt: skip
        shares = [each["share"] for each in found[name]]
        made.append(
            make_row(name, "inter_operator_share", "of total", shares, better="lower", paper=layout.paper_share)
        )
    return made
