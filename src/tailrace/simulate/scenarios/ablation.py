"""What does each mechanism add when the others are there: alone, all together, all but one, on one word count.

The word count has all the troubles at once: two of five nodes are at half speed, every node stalls now and then, the
splitting nodes share a limited uplink, and words are as uneven as words are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..comparison import PlotPanel, SimulationCase, SimulationReport, compare
from ..distributions import Exponential, Fixed, Uniform, UniformWhole, Zipf
from ..model import Model, NodeModel, Policies, SourceModel, StageModel, Stalls

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..comparison import ComparisonRow

#: Each mechanism by its paper's name, and what it sets.
MECHANISMS: dict[str, dict[str, str]] = {
    "lbf": {"sending": "lbf"},
    "shared_queue": {"inbox": "shared"},
    "balancing": {"routing": "shortest_delay"},
    "replay": {"replay": "adaptive"},
    "partial_key": {"keyed": "partial_key"},
}
_TASKS = 10
_WORDS_MAX = 8
_WORD_BYTES = 50
_USE = 0.75
_LINK_USE = 0.5


def word_count(sentences_per_s: float = 1200.0) -> Model:
    """Two tasks of each operator on every node."""
    stalls = Stalls(Exponential(5000.0), Uniform(20.0, 100.0))
    words_per_s = sentences_per_s * (1 + _WORDS_MAX) / 2
    link = words_per_s / 5 * _WORD_BYTES / _LINK_USE
    nodes = tuple(
        NodeModel(speed=speed, delay_us=100.0, stalls=stalls, link_bytes_per_s=link) for speed in (0.5, 0.5, 1, 1, 1)
    )
    places = tuple(task % len(nodes) for task in range(_TASKS))
    # An even share keeps the tasks of the slow nodes busy for three quarters of the time.
    split_us = _USE * 0.5 * _TASKS / sentences_per_s * 1e6
    count_us = 0.25 * 0.5 * _TASKS / words_per_s * 1e6
    split = StageModel(
        "split", _TASKS, Exponential(split_us), fan_out=UniformWhole(1, _WORDS_MAX), bytes=Fixed(_WORD_BYTES),
        keys=Zipf(20_000), nodes=places,
    )  # fmt: skip
    count = StageModel("count", _TASKS, Fixed(count_us), ("split",), "fields", nodes=places)
    # Sentences come from nodes of their own, so that their way in is not the link that is measured.
    feeders = tuple(NodeModel(delay_us=100.0) for _ in range(5))
    source = SourceModel(5, sentences_per_s / 5, nodes=tuple(range(5, 10)))
    return Model((*nodes, *feeders), source, (split, count))


def arms() -> dict[str, Policies]:
    """None, each alone, all, all but one."""

    def with_these(names: Sequence[str]) -> Policies:
        settings: dict[str, str] = {}
        for name in names:
            settings |= MECHANISMS[name]
        return replace(Policies(), **settings)  # type: ignore[arg-type]

    every = list(MECHANISMS)
    return {
        "none": with_these([]),
        **{f"only {name}": with_these([name]) for name in every},
        "all": with_these(every),
        **{f"all but {name}": with_these([each for each in every if each != name]) for name in every},
    }


def ablation(*, quick: bool, seeds: int, progress: Callable[[str, float], None]) -> SimulationReport:
    """Each mechanism alone, all together, all but one, on one heterogeneous word count."""
    seconds, warm_s = (16.0, 6.0) if quick else (60.0, 15.0)
    columns = ("mean_ms", "p50_ms", "p99_ms", "p999_ms", "max_backlog", "extra_load")
    case = SimulationCase("wordcount", word_count(), seconds, warm_s)
    found = compare(
        "ablation", ablation.__doc__ or "", [case], arms(), columns,
        baselines=("none", "all"), seeds=seeds, progress=progress,
    )  # fmt: skip
    by_arm = {row.arm: row for row in found.rows}
    return replace(found, panels=[_bars(by_arm, "p99_ms"), _bars(by_arm, "p50_ms")])


def _bars(by_arm: Mapping[str, ComparisonRow], metric: str) -> PlotPanel:
    alone = [(float(i), by_arm[f"only {name}"].ratios["none"][metric]) for i, name in enumerate(MECHANISMS)]
    missing = [(float(i), by_arm[f"all but {name}"].ratios["all"][metric]) for i, name in enumerate(MECHANISMS)]
    lines = {"alone, against none": alone, "all but this, against all": missing}
    return PlotPanel(
        f"{metric.removesuffix('_ms')} of a word count",
        "mechanism",
        "ratio (1: no change)",
        lines,
        ticks=tuple(MECHANISMS),
    )
