"""Makes a worker's tasks from the plan and the placement: chains, routing, outboxes, inboxes, guards, ledgers.

Called by the brain when the coordinator deploys; every worker numbers channels alike, so nothing needs to be agreed on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tailrace.acking.adaptive_timeout import TimeoutSettings
from tailrace.acking.dedup import Deduplicator
from tailrace.acking.ledger import Ledger
from tailrace.acking.replay import AdaptiveReplays, BlindReplays, FixedReplays
from tailrace.batch import REPLAY_BITS
from tailrace.program.channels import channel_bases, handout_channel
from tailrace.receiving.inbox import Channel, Inbox
from tailrace.routing import goes_by_pending, is_free, router_for
from tailrace.routing.fields import group_count
from tailrace.routing.key_table import floors_of, ways_beyond
from tailrace.sending.outbox import Outbox
from tailrace.worker.exchange.bounds import QueueBounds, queue_bounds
from tailrace.worker.exchange.outlet import Outlet
from tailrace.worker.execution.backends import backends_of
from tailrace.worker.execution.chain import Chain
from tailrace.worker.execution.own_roots import OwnRoots
from tailrace.worker.execution.task import SourceSide, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tailrace.acking.replay import Replays
    from tailrace.clock import Clock
    from tailrace.program.program import Program
    from tailrace.protocol import Durability, KeyTable
    from tailrace.routing import Router
    from tailrace.routing.near import Row
    from tailrace.topology.operators import OperatorSpec, TaskContext
    from tailrace.topology.plan import Stage, StageEdge

WINDOW_MIN = 64
_NS_PER_S = 1_000_000_000


@dataclass(frozen=True)
class Site:
    """Where this worker stands in the query."""

    slot: int
    attempt: int
    placement: list[list[int]]
    partitions: list[list[Any]]
    clock: Clock
    context_of: Callable[[OperatorSpec, int, int], TaskContext]
    #: Per edge that keeps near, the shares of its tasks for each sending task.
    near: dict[int, list[Row]] = field(default_factory=dict)
    #: Per stage whose tasks share a queue across workers: the slot at which each task's tuples wait.
    queues: Mapping[int, list[int]] = field(default_factory=dict)
    #: Per stage whose key groups have moved: who has them now.
    tables: dict[int, KeyTable] = field(default_factory=dict)
    #: Told whose code is about to run while tasks are built: constructors, and readers that are opened.
    enter: Callable[[str, int], None] = lambda _operator, _task: None
    #: Which start and deployment of the query this is, where it has checkpoints.
    durability: Durability | None = None

    @property
    def execution(self) -> int:
        """Which deployment this is; 0 without checkpoints."""
        return 0 if self.durability is None else self.durability.execution

    @property
    def first_attempt(self) -> int:
        """What the incarnations of roots begin with: above that of every earlier deployment or worker."""
        return self.execution or self.attempt

    def bounds(self, program: Program) -> QueueBounds:
        """How many bytes may wait in each queue here."""
        return queue_bounds(program.settings, self.placement)


def build_tasks(program: Program, site: Site) -> list[Task]:
    """Make the tasks that the placement gives this worker."""
    return [
        build_task(program, site, stage, index)
        for stage in program.plan.stages
        for index, slot in enumerate(site.placement[stage.id])
        if slot == site.slot
    ]


def build_task(program: Program, site: Site, stage: Stage, index: int) -> Task:
    """Make one task."""
    edges = program.plan.outputs[stage.id]

    def context_of(spec: OperatorSpec) -> TaskContext:
        site.enter(spec.name, index)
        context, order = site.context_of(spec, index, stage.tasks), site.durability
        if order is None:
            return context
        return replace(context, checkpoint=order.checkpoint, attempt=order.attempt, execution=order.execution)

    backend_of = backends_of(program.settings, group_count(stage.tasks, program.settings.key_groups))
    chain = Chain(stage, edges, context_of, backend_of)
    task = Task(stage, index, chain, {edge.id: _outlet(program, site, edge, index) for edge in edges})
    if stage.is_source:
        task.source = _source(site, stage, index)
        if program.policy.tracked and not program.plan.leads_to_order(stage.id):
            task.source.replays = _replays(program, task.source.ledger)
    else:
        away = stage.id in site.queues and site.queues[stage.id][index] != site.slot
        task.inbox = (_away_inbox if away else inbox_of)(program, site, stage, index)
        if stage.guarded and program.policy.tracked:
            task.deduplicator = Deduplicator((site.execution or 1) << REPLAY_BITS)
            if stage.id in site.tables:
                task.deduplicator.floors = floors_of(site.tables[stage.id])
            task.own = _own_roots(program, site, stage, index)
    return task


def _own_roots(program: Program, site: Site, stage: Stage, index: int) -> OwnRoots | None:
    """What a task emits by itself, if it has a partition for that."""
    for number, at_stage, at_task, _, _ in site.partitions:
        if (at_stage, at_task) == (stage.id, index):
            own = OwnRoots(number, Ledger(site.first_attempt))
            if not program.plan.leads_to_order(stage.id):
                own.replays = _replays(program, own.ledger)
            return own
    return None


def window(program: Program, stage: Stage) -> int:
    """How many tuples each sender may have under way to one task of the stage."""
    return max(WINDOW_MIN, program.settings.inbox_tuples // max(1, _senders(program, stage)))


def _senders(program: Program, stage: Stage) -> int:
    return sum(program.plan.stages[edge.src_stage].tasks for edge in program.plan.inputs[stage.id])


def _outlet(program: Program, site: Site, edge: StageEdge, index: int) -> Outlet:
    target = program.plan.stages[edge.dst_stage]
    base = channel_bases(program.plan)[edge.id] + index * target.tasks
    slots = site.placement[target.id]
    size, size_bytes = window(program, target), site.bounds(program).window(_senders(program, target))
    owners = site.queues.get(target.id, slots)
    boxes = [Outbox(base + task, owner, task, size, size_bytes) for task, owner in enumerate(owners)]
    router = router_of(program, site, edge, index)
    project = edge.grouping.fn if target.head.verb == "count" else None
    outlet = Outlet(edge.id, router, boxes, project, sole=len(program.plan.outputs[edge.src_stage]) == 1)
    if target.id in site.tables:
        outlet.branch(ways_beyond(site.tables[target.id], target.tasks))
    return outlet


def router_of(program: Program, site: Site, edge: StageEdge, index: int) -> Router:
    """The rule by which a task sends on an edge."""
    target = program.plan.stages[edge.dst_stage]
    return router_for(
        edge,
        target,
        sender=index,
        local=[task for task, slot in enumerate(site.placement[target.id]) if slot == site.slot],
        tracked=program.policy.tracked,
        settings=program.settings,
        routing=program.policy.routing,
        adaptive=program.policy.replay == "adaptive",
        senders=program.plan.stages[edge.src_stage].tasks,
        near=site.near[edge.id][index] if edge.id in site.near else None,
        switched=bool(program.switched),
        now_ns=site.clock.now_ns,
        table=site.tables.get(target.id),
        counted=program.policy.rebalance != "off",
    )


def _away_inbox(program: Program, site: Site, stage: Stage, index: int) -> Inbox:
    """The inbox of a task whose queue is in another worker: that worker is the only one that sends to it."""
    number = handout_channel(program.plan, stage, index)
    owner = site.queues[stage.id][index]
    return Inbox({number: Channel(number, owner, program.settings.inbox_tuples, at_end=True, prompt=True)})


def inbox_of(program: Program, site: Site, stage: Stage, index: int) -> Inbox:
    """The inbox of a task, with a channel from each task that may send to it."""
    bases = channel_bases(program.plan)
    size = window(program, stage)
    channels = {}
    for edge in program.plan.inputs[stage.id]:
        for sender, slot in enumerate(site.placement[edge.src_stage]):
            number = bases[edge.id] + sender * stage.tasks + index
            channels[number] = Channel(number, slot, size, at_end=_told_at_end(program, site, edge, slot))
    return Inbox(channels)


def _told_at_end(program: Program, site: Site, edge: StageEdge, sender_slot: int) -> bool:
    """Whether the sender's rule goes by what is finished; sender and receiver must find the same."""
    policy, target = program.policy, program.plan.stages[edge.dst_stage]
    local = [task for task, slot in enumerate(site.placement[target.id]) if slot == sender_slot]
    by_pending = goes_by_pending(policy.routing, tracked=policy.tracked, adaptive=policy.replay == "adaptive")
    return (by_pending or bool(program.switched)) and is_free(edge, target, local=local, tracked=policy.tracked)


def _replays(program: Program, ledger: Ledger) -> Replays:
    policy, settings = program.policy, program.settings
    first_ns = int(policy.replay_timeout_s * _NS_PER_S)
    if policy.replay_share:
        return BlindReplays(policy.replay_share, first_ns)
    if policy.replay != "adaptive" and "replay" not in program.switched:
        return FixedReplays(first_ns)
    return AdaptiveReplays(
        ledger,
        TimeoutSettings(
            period_s=TimeoutSettings.period_s / settings.haste,
            budget=settings.replay_budget,
            first_ns=first_ns,
            flush_ns=settings.flush_us * 1000,
            burst=settings.replay_burst,
            replays_max=settings.replays_max,
        ),
        pressing=policy.replay == "adaptive",
    )


def _source(site: Site, stage: Stage, index: int) -> SourceSide:
    ledger = Ledger(site.first_attempt)
    readers = {}
    for number, at_stage, at_task, name, offset in site.partitions:
        if (at_stage, at_task) == (stage.id, index):
            site.enter(stage.head.name, index)
            readers[number] = stage.head.fn.open(name, offset, site.clock)
            ledger.skip_to(number, offset)
    return SourceSide(readers, ledger)
