"""A count behind late roots that are sent again, held against a plain loop: with fields and with partial keys.

Called by ``tailrace bench timeout``. Workers that split stall at random, replays are as many as the budget allows, and
the sink has four tasks: a word counted twice or lost is a difference in the last count of its key.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tailrace.config import Policy, Settings
from tailrace.connect import sinks, sources
from tailrace.coordinator.query import Query
from tailrace.testing.chaos import Knobs
from tailrace.topology.graph import Topology
from tailrace_bench.reporting.rows import limit_row, make_row

from .arms import OPEN_S, WORKERS

if TYPE_CHECKING:
    from tailrace_bench.measurement.pace import Pace
    from tailrace_bench.reporting.rows import Row

    from .arms import ArmHosts

_SENTENCES = ["to be or not", "to be", "that is the question", "whether it is nobler in the mind to suffer", "be"]
_PER_S, _COUNT = 600.0, 4800
_ROUTINGS = {"fields": "even", "partial_key": "partial_key"}
_END_S = 120.0
_SETTINGS = Settings(progress_s=0.25, haste=10.0)


def counts_s() -> float:
    """About how long it takes."""
    return len(_ROUTINGS) * (OPEN_S + _COUNT / _PER_S + 1.0)


class _Split:
    """Splits after a millisecond's wait, or a stall."""

    def __init__(self, knobs: Knobs) -> None:
        self._knobs = knobs

    def __call__(self, sentence: str) -> list[str]:
        self._knobs.wait(0.001)
        return sentence.split()


def count_rows(hosts: ArmHosts, pace: Pace) -> list[Row]:
    """How many words were counted wrongly, which may be none, and how many roots were sent again meanwhile."""
    found: list[Row] = []
    for name, routing in _ROUTINGS.items():
        pace.step(f"counts, {name}", OPEN_S + _COUNT / _PER_S)
        wrong, replays = _run(hosts, routing)
        row = limit_row(f"counts,{name}", "wrong", "words", [float(wrong)], 1.0)
        found.append(row | {"baseline": "plain loop", "baseline_value": 0.0, "ok": wrong == 0, "bar": 0.0})
        found.append(make_row(f"counts,{name}", "replays", "roots", [float(replays)], better="lower"))
    return found


def _run(hosts: ArmHosts, routing: str) -> tuple[int, int]:
    with Knobs() as knobs:
        flow, out = Topology("counts"), sinks.collect()
        lines = flow.source(sources.rate(_PER_S, values=_SENTENCES, count=_COUNT, partitions=2), tasks=2)
        words = lines.shuffle().flat_map(_Split(knobs), tasks=WORKERS, blocking=True, name="split")
        words.key_by(str).count(tasks=3, name="count").sink(out, tasks=4, name="out")
        policy = Policy(routing=routing, replay="adaptive")
        query = Query(flow, hosts.host(_SETTINGS), policy, _SETTINGS).start()
        try:
            knobs.pause_at_random(range(WORKERS), every_s=1.0, lasting_s=(0.02, 0.1), seed=1)
            query.awaitTermination(_END_S)
            replays = int((query.lastProgress or {}).get("replays", 0))
        finally:
            query.stop(now=True)
    return _wrong(out.values, routing), replays


def _wrong(pairs: list[Any], routing: str) -> int:
    """Words whose highest count is not theirs; with fields each count must also have come once."""
    wanted = Counter(word for at in range(_COUNT) for word in _SENTENCES[at % len(_SENTENCES)].split())
    highest: Counter[str] = Counter()
    for word, count in pairs:
        highest[word] = max(highest[word], count)
    wrong = sum(highest[word] != wanted[word] for word in highest.keys() | wanted.keys())
    return wrong + (abs(len(pairs) - wanted.total()) if routing == "even" else 0)
