"""From a task graph and a placement to a model: operators become stages, workers become nodes, hosts are told apart.

The scenarios of StroMAX and TurboStream call it. Placement policies are those of ``tailrace.placement``, unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.placement.traffic import OperatorProfile, expand

from ..distributions import Chance, Exponential, Fixed
from ..model import Model, NodeModel, SourceModel, StageModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.placement.model import Assignment, Node, OperatorEdge, TaskGraph

    from ..distributions import Distribution


@dataclass(frozen=True)
class Hops:
    """What it takes from task to task: in one worker, between workers of a host, between hosts; in microseconds."""

    own_us: float
    near_us: float
    far_us: float


#: TurboStream's Table I: means of its two edges in 1N1W, 1N2W and 2N2W, Netty between all workers.
TABLE_1 = Hops(own_us=355.0, near_us=4400.0, far_us=5430.0)


@dataclass(frozen=True)
class Drawing:
    """A topology to be placed and simulated: operators with their cost in microseconds, streams, the source's rate."""

    name: str
    operators: tuple[OperatorProfile, ...]
    streams: tuple[OperatorEdge, ...]

    @property
    def graph(self) -> TaskGraph:
        """Its tasks and what they send each other."""
        return expand(self.name, self.operators, self.streams)

    def busiest(self) -> float:
        """Use of the busiest task of any operator but the source at the declared rate."""
        graph = self.graph
        fed = {stream.dst for stream in self.streams}
        return max(vertex.cpu for vertex in graph.vertices if vertex.operator in fed) * 1e-6


def model_of(
    drawing: Drawing, hosts: Sequence[Node], assignment: Assignment, hops: Hops, link_bytes_per_s: float | None = None
) -> Model:
    """One node per worker, tasks where the assignment puts them."""
    workers = [(host.name, worker) for host in hosts for worker in range(host.workers)]
    index = {place: number for number, place in enumerate(workers)}
    nodes = tuple(
        NodeModel(
            delay_us=hops.far_us, near_us=hops.near_us, own_us=hops.own_us, host=name, link_bytes_per_s=link_bytes_per_s
        )
        for name, _ in workers
    )
    graph = drawing.graph
    places = {
        operator: tuple(index[assignment.place_of(task.id)] for task in tasks)
        for operator, tasks in graph.operators.items()
    }
    source, *others = drawing.operators
    stages = []
    for operator in others:
        inputs = tuple("source" if s.src == source.id else s.src for s in drawing.streams if s.dst == operator.id)
        grouping = next(s.grouping.partition(":")[0] for s in drawing.streams if s.dst == operator.id)
        stages.append(
            StageModel(
                operator.id, operator.tasks, Exponential(operator.cost), inputs,
                "fields" if grouping == "fields" else "shuffle",
                fan_out=_fan_out(operator.selectivity), bytes=Fixed(operator.tuple_bytes), nodes=places[operator.id],
            )
        )  # fmt: skip
    emits = SourceModel(
        source.tasks, source.rate_tps / source.tasks, bytes=Fixed(source.tuple_bytes), nodes=places[source.id]
    )
    return Model(nodes, emits, tuple(stages))


def _fan_out(selectivity: float) -> Distribution:
    return Fixed(selectivity) if selectivity == int(selectivity) else Chance(selectivity)
