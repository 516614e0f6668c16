"""From what was measured to the moves a placement policy asks for. Pure but for reading the brain's book.

Called by ``move_api`` when a user asks and by ``rebalancing`` when the loop looks. Where all workers are on one
host, each worker counts as a node of its own: there is nothing else to balance then.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tailrace.coordinator.steering.graphs import nodes_of, placement_of, slots_by_host, task_graph
from tailrace.coordinator.steering.placement_policy import placed_by
from tailrace.placement.spread import spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.coordinator.brain import CoordinatorBrain
    from tailrace.coordinator.operations.task_move import Wanted
    from tailrace.program.program import Program

Key = tuple[int, int]


def measured_rows(program: Program, brain: CoordinatorBrain) -> dict[Key, dict[str, Any]]:
    """The newest report on each task."""
    if not brain.book.recent:
        return {}
    stage_of = {spec.name: stage.id for stage in program.plan.stages for spec in stage.operators}
    return {(stage_of[row["operators"][0]], row["task"]): row for row in brain.book.recent[-1]["tasks"]}


def speeds_of(rows: dict[Key, dict[str, Any]], slots: Sequence[int]) -> dict[int, float]:
    """How fast each worker is: what a tuple costs elsewhere over what it costs there, the median over its tasks."""
    by_stage: dict[int, list[float]] = {}
    for (stage, _), row in rows.items():
        if row["inPerSecond"] and row["service_us"]:
            by_stage.setdefault(stage, []).append(row["service_us"])
    ratios: dict[int, list[float]] = {slot: [] for slot in slots}
    for (stage, _), row in rows.items():
        if row["inPerSecond"] and row["service_us"] and len(by_stage[stage]) > 1 and row["worker"] in ratios:
            ratios[row["worker"]].append(statistics.median(by_stage[stage]) / row["service_us"])
    return {slot: statistics.median(found) if found else 1.0 for slot, found in ratios.items()}


def loads_of(place: dict[Key, int], rows: dict[Key, dict[str, Any]], speeds: dict[int, float]) -> dict[Key, float]:
    """Seconds of work per second that each task would be at usual speed; equal where nothing was measured."""
    found = {key: rows[key]["utilisation"] * speeds.get(place[key], 1.0) if key in rows else 0.0 for key in place}
    least = 0.01 * max(found.values(), default=0.0)
    return {key: max(load, least) or 1.0 for key, load in found.items()}


def place_of(brain: CoordinatorBrain) -> dict[Key, int]:
    """Where every task is."""
    return {(stage, task): slot for stage, row in enumerate(brain.placement) for task, slot in enumerate(row)}


def moves_to(
    program: Program,
    brain: CoordinatorBrain,
    policy: str,
    slots: Sequence[int],
    speeds: dict[int, float] | None = None,
) -> list[Wanted]:
    """The moves that bring all tasks to where a policy wants them on these workers."""
    place = place_of(brain)
    rows = measured_rows(program, brain)
    speeds = speeds_of(rows, slots) if speeds is None else speeds
    if policy in {"spread", "round_robin"}:
        found = spread(place, loads_of(place, rows, speeds), slots, speeds)
    else:
        found = _placed(program, brain, policy, slots, speeds)
    return [(*key, slot) for key, slot in found.items() if slot != place[key] and _may_move(program, key, place, slots)]


def _may_move(program: Program, key: Key, place: dict[Key, int], slots: Sequence[int]) -> bool:
    """A source that cannot be opened elsewhere stays, unless its worker goes: then the request says that it cannot."""
    stage = program.plan.stages[key[0]]
    fixed = stage.is_source and not getattr(stage.head.fn, "movable", True)
    return not fixed or place[key] not in slots


def _placed(
    program: Program, brain: CoordinatorBrain, policy: str, slots: Sequence[int], speeds: dict[int, float]
) -> dict[Key, int]:
    """What a placement policy makes of the measured weights."""
    hosts = dict(brain.hosts)
    if len({hosts[slot] for slot in slots}) == 1:
        hosts = {slot: f"worker-{slot}" for slot in hosts}
    there = {slot: hosts[slot] for slot in slots}
    snapshot = brain.measured.snapshot(brain.placement, hosts)
    if snapshot is not None:
        by_host = slots_by_host(there)
        speed = {name: statistics.median(speeds.get(slot, 1.0) for slot in each) for name, each in by_host.items()}
        snapshot = replace(snapshot, node_speed=speed)
    assignment = placed_by(policy, task_graph(program), nodes_of(there), snapshot)
    placed = placement_of(program.plan, assignment, there)
    return {(stage, task): slot for stage, row in enumerate(placed) for task, slot in enumerate(row)}
