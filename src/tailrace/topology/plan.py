"""From what the user drew to what runs: operators chained into stages, stages cut into tasks, edges between stages.

Called once on the driver when a query starts; the result is plain data that every worker reads. A *stage* is a tree of
operators that hand over values by plain calls; a *channel* is one edge between one task and another.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .counts import task_counts, upstream_first
from .operators import KEYED_VERBS, OperatorSpec

if TYPE_CHECKING:
    from .graph import Topology
    from .groupings import Grouping
    from .operators import EdgeSpec


@dataclass(frozen=True)
class Link:
    """A hand-over inside a stage: what leaves ``src`` by ``port`` is given to ``dst`` at once."""

    src: str
    port: str
    dst: str


@dataclass(frozen=True)
class StageEdge:
    """What leaves an operator by a port and goes to the tasks of another stage."""

    id: int
    src_stage: int
    src: str
    port: str
    dst_stage: int
    grouping: Grouping


@dataclass(frozen=True)
class Stage:
    """Operators that always run together in one task; ``operators[0]`` is where tuples come in."""

    id: int
    operators: tuple[OperatorSpec, ...]
    links: tuple[Link, ...]
    tasks: int

    @property
    def head(self) -> OperatorSpec:
        """The operator at which tuples enter the stage."""
        return self.operators[0]

    @property
    def is_source(self) -> bool:
        """Whether the stage begins with a source."""
        return self.head.verb == "source"

    @property
    def is_async(self) -> bool:
        """Whether its operator is awaited."""
        return is_async(self.head)

    @property
    def guarded(self) -> bool:
        """Whether duplicates must be dropped in front of it.

        It keeps state, or lets results out, or a second run over the same tuple would give something else; what it gave
        the first time is then repeated instead.
        """
        return not self.is_source and any(map(guards, self.operators))

    @property
    def ordered(self) -> bool:
        """Whether a replay for lateness must not overtake what it repeats."""
        return any(op.ordered for op in self.operators)


@dataclass(frozen=True)
class Plan:
    """Stages in topological order and the edges between them."""

    name: str
    stages: tuple[Stage, ...]
    edges: tuple[StageEdge, ...]
    inputs: dict[int, tuple[StageEdge, ...]] = field(default_factory=dict)
    outputs: dict[int, tuple[StageEdge, ...]] = field(default_factory=dict)

    def leads_to_order(self, stage: int) -> bool:
        """Whether what leaves the stage can reach one that is ordered, or the stage is."""
        return self.stages[stage].ordered or any(self.leads_to_order(edge.dst_stage) for edge in self.outputs[stage])


def guards(spec: OperatorSpec) -> bool:
    """Whether duplicates must be dropped in front of an operator."""
    return spec.verb in KEYED_VERBS or spec.verb == "process" or spec.kind == "sink" or not spec.deterministic


def is_async(spec: OperatorSpec) -> bool:
    """Whether the user's function is ``async def``."""
    fn = getattr(spec.fn, "process", spec.fn)
    return inspect.iscoroutinefunction(fn)


def make_plan(topology: Topology, *, chaining: bool = True, durable: bool = False) -> Plan:
    """Resolve task counts, chain what may be chained and number stages and edges.

    Where the query is ``durable``, what has something to remember is not chained to a source: it needs a deduplicator,
    which knows what was applied of roots that are sent again after a recovery.
    """
    order = upstream_first(topology)
    tasks = task_counts(topology)
    chained = {
        (edge.src, edge.port, edge.dst) for edge in topology.edges if chaining and _chains(topology, edge, tasks)
    }
    head_of: dict[str, str] = {}
    for name in order:
        upstream = [edge for edge in topology.edges if (edge.src, edge.port, edge.dst) in chained and edge.dst == name]
        head = head_of[upstream[0].src] if upstream else name
        if durable and head != name and topology.operators[head].verb == "source" and guards(topology.operators[name]):
            chained.discard((upstream[0].src, upstream[0].port, name))
            head = name
        head_of[name] = head
    heads = [name for name in order if head_of[name] == name]
    number = {head: i for i, head in enumerate(heads)}
    stages = tuple(
        Stage(
            number[head],
            tuple(topology.operators[name] for name in order if head_of[name] == head),
            tuple(
                Link(edge.src, edge.port, edge.dst)
                for edge in topology.edges
                if head_of[edge.src] == head and (edge.src, edge.port, edge.dst) in chained
            ),
            tasks[head],
        )
        for head in heads
    )
    between = [edge for edge in topology.edges if (edge.src, edge.port, edge.dst) not in chained]
    edges = tuple(
        StageEdge(i, number[head_of[edge.src]], edge.src, edge.port, number[head_of[edge.dst]], edge.grouping)
        for i, edge in enumerate(between)
    )
    return Plan(
        topology.name,
        stages,
        edges,
        {stage.id: tuple(edge for edge in edges if edge.dst_stage == stage.id) for stage in stages},
        {stage.id: tuple(edge for edge in edges if edge.src_stage == stage.id) for stage in stages},
    )


def _chains(topology: Topology, edge: EdgeSpec, tasks: dict[str, int]) -> bool:
    src, dst = topology.operators[edge.src], topology.operators[edge.dst]
    return (
        edge.grouping.kind in {"auto", "local"}
        and tasks[edge.src] == tasks[edge.dst]
        and sum(other.dst == edge.dst for other in topology.edges) == 1
        and not dst.blocking
        and not is_async(src)
        and not is_async(dst)
    )
