"""What goes where at the start of a query: tasks to slots by the placement policy, partitions to source tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.batch import PARTITIONS_MAX
from tailrace.config import TWO_CHOICES
from tailrace.coordinator.migration.multi_query import beside
from tailrace.errors import ConfigError, nearest
from tailrace.program.program import Program
from tailrace.receiving.shared import SharedQueueError, check_may_share
from tailrace.routing.stamped import check_untracked
from tailrace.sending.gate import GATE_TASKS_MAX
from tailrace.topology.plan import make_plan
from tailrace.topology.split import with_partial_keys

from .errors import StartError
from .steering.graphs import nodes_of, placement_of, task_graph
from .steering.placement_policy import placed_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.config import Policy, Settings
    from tailrace.placement.snapshot import Snapshot
    from tailrace.topology.graph import Topology
    from tailrace.topology.plan import Plan


def plan_of(topology: Topology, policy: Policy, *, durable: bool = False) -> Plan:
    """Make the plan of a query; where a key may go to two tasks, counts and reduces become parts and a merge."""
    if policy.routing == "stamped":
        check_untracked(tracked=policy.tracked)
    drawn = with_partial_keys(topology) if policy.routing in TWO_CHOICES else topology
    return make_plan(drawn, chaining=policy.chaining == "on", durable=durable)


def program_of(topology: Topology, policy: Policy, settings: Settings, *, durable: bool = False) -> Program:
    """Make what every worker runs; steps that are left to the coordinator begin at their baselines."""
    plan = plan_of(topology, policy, durable=durable)
    return Program(plan, policy.at_first, settings, policy.switched, durable)


def place_tasks(
    program: Program,
    hosts: Mapping[int, str],
    snapshot: Snapshot | None = None,
    busy: Mapping[str, float] | None = None,
) -> list[list[int]]:
    """Give every task a slot; ``hosts`` tells on which node each slot is. Per stage, per task.

    Without a snapshot nothing has run yet, and the structure of the topology counts. ``busy`` is the work that others
    have on each node.
    """
    policy = program.policy
    # Only auto compares by predicted traffic, which node-local shuffle changes.
    options = {"shuffle": policy.locality} if policy.placement == "auto" and policy.locality != "off" else {}
    nodes = beside(nodes_of(hosts), busy or {})
    assignment = placed_by(policy.placement, task_graph(program), nodes, snapshot, **options)
    return placement_of(program.plan, assignment, hosts)


def check_sharing(plan: Plan, policy: Policy) -> None:
    """Refuse a shared inbox that was asked for by name where there can be none."""
    heads = {stage.head.name: stage for stage in plan.stages}
    for name in policy.sharing:
        if name not in heads:
            raise SharedQueueError(
                f"A shared inbox was asked for in front of {name!r}; the operators with an inbox are "
                f"{', '.join(repr(each.head.name) for each in plan.stages if not each.is_source)}.",
                nearest(name, heads),
            )
        check_may_share(heads[name], tuple(plan.inputs[heads[name].id]))


def check_sending(program: Program) -> None:
    """Refuse a gate that has nothing to hand out, or more senders than its table has room for."""
    policy, settings = program.policy, program.settings
    if policy.sending != "fifo" and not settings.link_bytes_per_s:
        raise ConfigError(
            f"sending={policy.sending!r} orders what waits for a limited uplink; the setting link_bytes_per_s is 0.",
            "Set link_bytes_per_s to what a node may send per second, or leave sending at 'fifo'.",
        )
    tasks = sum(stage.tasks for stage in program.plan.stages)
    if settings.link_bytes_per_s and tasks > GATE_TASKS_MAX:
        raise ConfigError(
            f"Behind a limited uplink a topology may have {GATE_TASKS_MAX} tasks; found {tasks}.",
            "Use fewer tasks, or leave link_bytes_per_s at 0.",
        )


def deal_partitions(plan: Plan, *, durable: bool = False) -> list[list[Any]]:
    """Number all source partitions and deal each source's to its tasks: number, stage, task, name.

    Numbers begin at 1; 0 is for tuples that hang on no root. Where the query is ``durable``, behind the sources' each
    task that may emit something by itself has a partition of its own.
    """
    dealt: list[list[Any]] = []
    for stage in plan.stages:
        if stage.is_source:
            for at, name in enumerate(stage.head.fn.partitions()):
                dealt.append([len(dealt) + 1, stage.id, at % stage.tasks, name])
    for stage in plan.stages:
        if durable and stage.guarded and plan.outputs[stage.id]:
            for task in range(stage.tasks):
                dealt.append([len(dealt) + 1, stage.id, task, f"task {task}"])
    if len(dealt) >= PARTITIONS_MAX:
        raise StartError(
            f"The sources of a topology may have {PARTITIONS_MAX - 1} partitions together; found {len(dealt)}.",
            "Read fewer files or topics per query.",
        )
    return dealt
