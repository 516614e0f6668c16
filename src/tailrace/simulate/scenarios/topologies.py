"""Topologies that several scenarios use: chains, Yahoo's PageLoad and Processing, Hone's word count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..distributions import Chance, Exponential, Fixed, UniformWhole, Zipf
from ..model import Model, NodeModel, SourceModel, StageModel

if TYPE_CHECKING:
    from ..distributions import Distribution

US_PER_S = 1e6
_DELAY_US = 100.0
_PASSED = 0.8


def chain(
    nodes: tuple[NodeModel, ...],
    names: tuple[str, ...],
    rate_per_s: float,
    service_us: Distribution,
    *,
    tasks: int = 5,
    places: tuple[tuple[int, ...], ...] = (),
    grouping: str = "shuffle",
    source_tasks: int = 5,
) -> Model:
    """A linear topology; stages called filter pass four tuples in five."""
    stages = []
    before = "source"
    for index, name in enumerate(names):
        stages.append(
            StageModel(
                name, tasks, service_us, (before,), grouping,
                fan_out=Chance(_PASSED) if name.startswith("filter") else Fixed(1),
                nodes=places[index] if places else (),
            )
        )  # fmt: skip
        before = name
    return Model(nodes, SourceModel(source_tasks, rate_per_s), tuple(stages))


def even_nodes(count: int = 5) -> tuple[NodeModel, ...]:
    """Equal nodes with a little delay between them."""
    return (NodeModel(delay_us=_DELAY_US),) * count


def pageload(
    nodes: tuple[NodeModel, ...], rate_per_s: float, service_us: Distribution, *, packed: bool = False
) -> Model:
    """Source and six operators in a row; packed: the inner operators have 4 tasks, all on one node each."""
    names = ("transform", "filter", "join", "filter2", "aggregate", "sink")
    if not packed:
        return chain(nodes, names, rate_per_s, service_us)
    places = tuple((index % len(nodes),) * 4 for index in range(5))
    inner = chain(nodes, names[:5], rate_per_s, service_us, tasks=4, places=places)
    return Model(nodes, inner.source, (*inner.stages, StageModel("sink", 5, Exponential(100.0), ("aggregate",))))


def processing(
    nodes: tuple[NodeModel, ...], rate_per_s: float, service_us: Distribution, *, packed: bool = False
) -> Model:
    """Transform feeds two branches, each of which gets every tuple."""
    tree = (
        ("transform", "source"), ("filter_all", "transform"), ("join1", "filter_all"),
        ("join2", "transform"), ("normalize", "join2"),
    )  # fmt: skip
    stages = [
        StageModel(
            name, 4 if packed else 5, service_us, (before,), nodes=(index % len(nodes),) * 4 if packed else ()
        )
        for index, (name, before) in enumerate(tree)
    ]  # fmt: skip
    last = Exponential(100.0) if packed else service_us
    stages += [StageModel("output1", 5, last, ("join1",)), StageModel("output2", 5, last, ("normalize",))]
    return Model(nodes, SourceModel(5, rate_per_s), tuple(stages))


def word_count(
    *,
    words_max: int = 32,
    use: float = 0.9,
    grouping: str = "shuffle",
    arrivals: str = "poisson",
    dealt: str = "shuffle",
) -> Model:
    """Hone's testbed: 10 tasks per operator, a node per operator, the uplink of the splitting node limited.

    ``dealt`` says how sentences come to the splitting tasks: in turn (``shuffle``), or each to any (``random``), which
    gives each of them a Poisson stream of its own.
    """
    sentences_per_s = 1170.0
    word_bytes, tasks = 50, 10
    words = UniformWhole(1, words_max)
    link = sentences_per_s * (1 + words_max) / 2 * word_bytes / use
    nodes = (
        NodeModel(delay_us=_DELAY_US),
        NodeModel(delay_us=_DELAY_US, link_bytes_per_s=link),
        NodeModel(delay_us=_DELAY_US),
    )
    split = StageModel(
        "split", tasks, Fixed(50.0), ("source",), dealt, fan_out=words, bytes=Fixed(word_bytes), nodes=(1,) * tasks,
        keys=Zipf(20_000) if grouping == "fields" else None,
    )  # fmt: skip
    count = StageModel("count", tasks, Fixed(5.0), ("split",), grouping, nodes=(2,) * tasks)
    return Model(nodes, SourceModel(tasks, sentences_per_s / tasks, arrivals, nodes=(0,) * tasks), (split, count))
