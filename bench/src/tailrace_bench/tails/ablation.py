"""``tailrace bench ablation``: what each mechanism adds when the others are there, on one heterogeneous word count.

None, each alone, all together, all but one, each as a query of its own on plain processes. The word count has all the
troubles at once, as in ``tailrace simulate ablation``: two of five workers at half speed, random stalls, limited
uplinks, and words as uneven as words are. Partial keys are left out: on the runtime they and balancing are one choice.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from tailrace.batch import Batch, numbers
from tailrace.config import Policy, Settings
from tailrace.connect import sinks
from tailrace.simulate.scenarios import ablation as simulated
from tailrace.topology.graph import Topology
from tailrace.topology.operators import KeyedOperator
from tailrace.transport import codec, wire
from tailrace_bench.bench import Bench, Timed
from tailrace_bench.reporting.rows import make_row

from .arms import WORKERS, TailCase, TailTimes, hosts_of, run_case, tail_rows
from .sentences import TASKS, Sentences, words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.testing.chaos import Knobs
    from tailrace.topology.operators import State
    from tailrace_bench.measurement.pace import Pace
    from tailrace_bench.reporting.rows import Row

    from .arms import TailMeasurements

#: Each mechanism and what it sets: the simulator's, but for partial keys.
MECHANISMS = {name: sets for name, sets in simulated.MECHANISMS.items() if name != "partial_key"}
NONE, ALL = "none", "all"
CASES = (NONE, *(f"only {name}" for name in MECHANISMS), ALL, *(f"all but {name}" for name in MECHANISMS))
PER_S = 300.0
WORDS_MAX = 8
_SLOWNESS = (2.0, 2.0, 1.0, 1.0, 1.0)
_STALL_EVERY_S, _STALL_S = 5.0, (0.02, 0.1)
#: Of a slow worker's tasks at an even share, and of the uplinks.
_USE, _LINK_USE = 0.75, 0.5
_SPLIT_S = _USE * TASKS / PER_S / max(_SLOWNESS)
QUICK = TailTimes(repeats=1, warm_s=4.0, window_s=5.0, windows=3)
FULL = TailTimes(repeats=3, warm_s=8.0, window_s=20.0, windows=2)
NOTES = [
    (
        f"{PER_S:,.0f} sentences/s of 1 to {WORDS_MAX} words; splitting one takes {_SPLIT_S * 1000:.1f} ms on average, "
        f"twice that on two of {WORKERS} workers, whose tasks are used {_USE:.0%} at an even share; uplinks are used "
        f"{_LINK_USE:.0%}."
    ),
    "Every worker stalls for 20 to 100 ms about every five seconds; a sentence is complete with its last word.",
    "Against none: what a mechanism adds alone. All but one against all: above 1, the one left out is worth having.",
]


def planned_s(times: TailTimes, only: str | None) -> float:
    """About how long it takes; one case needs its baselines too."""
    return len(_arms(only)) * times.repeats * times.arm_s + 5.0


def policy_of(case: str) -> Policy:
    """The policy of an arm, by its name."""
    left_out = case.removeprefix("all but ")
    chosen = {"replay": "fixed:600s"}
    for name, sets in MECHANISMS.items():
        if case == f"only {name}" or (case.startswith(ALL) and name != left_out):
            chosen |= sets
    return Policy(**chosen)


def settings() -> Settings:
    """Every worker is a node whose uplink carries twice what an even share sends; balancers look more often."""
    text = words()
    sentence = " ".join(text[: (1 + WORDS_MAX) // 2])
    per_s = PER_S * ((1 + WORDS_MAX) / 2 * _bytes_of(text) + _bytes_of([sentence])) / WORKERS
    return Settings(link_bytes_per_s=int(per_s / _LINK_USE), node_is="worker", progress_s=0.25, haste=4.0)


def _bytes_of(values: list[str]) -> float:
    """What a value takes on a link by itself, on average."""
    heads = numbers((1 << 40, 1 << 8, 1 << 60))
    payloads = sum(len(codec.encode_batch(Batch([each], None, heads))) for each in values)
    return wire.FRAME_HEAD_BYTES + payloads / len(values)


class UnevenSplit:
    """Words out of a sentence, after as much work as its worker's speed and stalls make of it."""

    def __init__(self, knobs: Knobs) -> None:
        self._knobs = knobs

    def __call__(self, sentence: tuple[int, int, str]) -> list[str]:
        """Work, then give the words."""
        self._knobs.wait(random.expovariate(1 / _SPLIT_S))
        return sentence[2].split()


class SilentCount(KeyedOperator):
    """Counts, and tells nobody: what it would say would be on the links as well."""

    def process(self, *args: Any, **kwargs: Any) -> None:
        """Count a word."""
        del kwargs
        state: State[int] = args[2]
        state.set((state.get() or 0) + 1)


def flow(knobs: Knobs, seed: int) -> Topology:
    """Source, split and count, two tasks of each in every worker."""
    drawn = Topology("ablation")
    source = drawn.source(Sentences(PER_S, WORDS_MAX, seed), name="sentences", tasks=TASKS)
    split = source.shuffle().flat_map(UnevenSplit(knobs), name="split", tasks=TASKS, blocking=True)
    counted = split.key_by(_itself).process(SilentCount(), name="count", tasks=TASKS)
    counted.sink(sinks.discard(), name="end", tasks=TASKS)
    return drawn


def _itself(word: str) -> str:
    return word


def disturb(knobs: Knobs, seed: int) -> None:
    """Slow two workers down and let all stall now and then."""
    for worker, times in enumerate(_SLOWNESS):
        knobs.slow(worker, times)
    knobs.pause_at_random(range(WORKERS), every_s=_STALL_EVERY_S, lasting_s=_STALL_S, seed=seed)


def _arms(only: str | None) -> list[str]:
    return [case for case in CASES if only is None or case in {only, NONE, ALL}]


def rows(times: TailTimes, pace: Pace, only: str | None = None, *, spark: bool = False) -> list[Row]:
    """All arms, or one beside none and all."""
    arms = {case: policy_of(case) for case in _arms(only)}
    with hosts_of(pace, spark=spark) as hosts:
        measured = run_case(hosts, TailCase("wordcount", flow, disturb), arms, settings(), times, pace)
    return compared(measured)


def compared(measured: Mapping[str, TailMeasurements]) -> list[Row]:
    """Every arm against none, and those that leave one out against all as well."""
    found: list[Row] = []
    for arm, own in measured.items():
        if arm != NONE:
            found += tail_rows(arm, own, measured[NONE], NONE, {})
        if arm.startswith("all but "):
            found += tail_rows(arm, own, measured[ALL], ALL, {})
        if policy_of(arm).replay == "adaptive":
            found.append(make_row(arm, "extra_load", "replays per root", own.extra, better="lower"))
    return found


BENCH = Bench("ablation", Timed(QUICK, FULL, planned_s, rows, NOTES), CASES)
