"""What the rebalancing loop could do about hot keys: per keyed stage the best moves of groups, their worth and cost.

Reads the brain's book and what senders have counted (``key_loads``), asks ``hot_keys``, decides nothing itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailrace.coordinator.migration.hot_keys import StageLoad, relieve
from tailrace.coordinator.migration.move_cost import cost, waiting, worth
from tailrace.coordinator.operations.key_move import check_movable
from tailrace.program.errors import MoveError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from tailrace.coordinator.brain import CoordinatorBrain
    from tailrace.coordinator.migration.replanning import Key
    from tailrace.program.program import Program
    from tailrace.topology.plan import Stage

Rows = dict["Key", dict[str, Any]]


@dataclass(frozen=True)
class Offer:
    """Groups of a stage that could go, and what that would bring."""

    stage: int
    groups: Mapping[int, int]
    worth: float
    cost: float
    why: str


def best_offer(program: Program, brain: CoordinatorBrain, rows: Rows, pause_s: float) -> Offer | None:
    """The moves of key groups that pay most; None where none would help."""
    found = [_offer(stage, brain, rows, pause_s) for stage in program.plan.stages if _has_groups(program, stage)]
    offers = [offer for offer in found if offer is not None]
    return max(offers, key=lambda offer: offer.worth - offer.cost, default=None)


def _has_groups(program: Program, stage: Stage) -> bool:
    try:
        check_movable(program, stage)
    except MoveError:
        return False
    return stage.tasks > 1


def _server(row: dict[str, Any], key: Key) -> Hashable:
    """Who does a task's work: its own thread, or the loop of its worker."""
    return key if row["runs"] != "inline" else row["worker"]


def _offer(stage: Stage, brain: CoordinatorBrain, rows: Rows, pause_s: float) -> Offer | None:
    keys = [(stage.id, task) for task in range(stage.tasks)]
    shares = brain.key_loads.shares(stage.id)
    if not shares or any(key not in rows for key in keys):
        return None
    besides: dict[Hashable, float] = {}
    for key, row in rows.items():
        if key[0] != stage.id:
            server = _server(row, key)
            besides[server] = besides.get(server, 0.0) + row["utilisation"]
    work = sum(rows[key]["utilisation"] for key in keys)
    load = StageLoad(
        {group: share * work for group, share in shares.items()},
        brain.operations.key_tasks(stage.id),
        [_server(rows[key], key) for key in keys],
        besides,
    )
    moves = relieve(load)
    if not moves:
        return None
    before, after = (sum(map(waiting, load.used(each).values())) for each in ({}, moves))
    queued = float(sum(rows[key]["inbox"] for key in keys))
    return Offer(
        stage.id, moves, worth(before, after, queued),
        cost(sum(rows[key]["inPerSecond"] for key in keys), pause_s), _told(stage, load, moves, shares),
    )  # fmt: skip


def _told(stage: Stage, load: StageLoad, moves: Mapping[int, int], shares: Mapping[int, float]) -> str:
    group = max(shares, key=lambda each: shares[each])
    task = load.task_of[group]
    used, then = load.used()[load.server_of[task]], load.used(moves)[load.server_of[task]]
    return (
        f"key group {group} of {stage.head.name} brings {shares[group]:.0%} of its input; without {len(moves)} lighter "
        f"group(s) its task {task} is used {then:.2f} and not {used:.2f}"
    )
