"""``query.move``, ``move_keys``, ``rebalance`` and ``scale``: moves that a user asks for, from the user's thread.

Asks the coordinator's brain under its lock and waits for what becomes of the plan; which tasks go where is decided by
``replanning``.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tailrace.coordinator.migration.replanning import moves_to
from tailrace.coordinator.operations.key_move import check_movable
from tailrace.coordinator.operations.operation import UNDONE
from tailrace.errors import ConfigError, nearest
from tailrace.program.errors import MoveError
from tailrace.routing.fields import even_groups, group_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tailrace.coordinator.brain import CoordinatorBrain
    from tailrace.coordinator.interfaces import Host
    from tailrace.coordinator.loop import CoordinatorLoop
    from tailrace.coordinator.operations.operation import Operation
    from tailrace.coordinator.operations.task_move import Wanted
    from tailrace.program.boot import Boot
    from tailrace.program.program import Program
    from tailrace.topology.plan import Stage

_POLL_S = 0.002


class MoveApi:
    """The moves of one query, as its user asks for them."""

    def __init__(
        self, loop: CoordinatorLoop, brain: CoordinatorBrain, program: Program, host: Host, boot: Boot
    ) -> None:
        self._loop = loop
        self._brain = brain
        self._program = program
        self._host = host
        self._boot = boot

    def move(self, operator: str, task: int, worker: int) -> list[dict[str, Any]]:
        """Move one task, with all that is chained to it."""
        stage = self._stage_of(operator)
        if not 0 <= task < stage.tasks:
            raise ConfigError(f"Operator {operator!r} has tasks 0 to {stage.tasks - 1}; found {task}.")
        return self._carry_out(lambda brain: brain.operations.move_tasks([(stage.id, task, worker)], "asked for"))

    def move_keys(self, operator: str, keys: Iterable[Any], groups: Iterable[int], task: int) -> list[dict[str, Any]]:
        """Move the groups of some keys, and some groups, to one task."""
        stage = self._stage_of(operator)
        if isinstance(keys, str | bytes):
            raise ConfigError(f"move_keys takes a list of keys; found {keys!r}.", f"Give [{keys!r}].")
        count = len(even_groups(stage.tasks, self._program.settings.key_groups))
        wanted = {group_of(key, count) for key in keys} | set(groups)
        return self._carry_out(
            lambda brain: brain.operations.move_keys(stage.id, dict.fromkeys(sorted(wanted), task), "asked for")
        )

    def key_groups_of(self, operator: str) -> list[int]:
        """Which task of an operator has each of its key groups."""
        stage = self._stage_of(operator)
        check_movable(self._program, stage)
        return self._brain.operations.key_tasks(stage.id)

    def workers_of(self, operator: str) -> list[int]:
        """Where the tasks of an operator are."""
        return list(self._brain.placement[self._stage_of(operator).id])

    def _stage_of(self, operator: str) -> Stage:
        stage = next(
            (each for each in self._program.plan.stages if operator in {spec.name for spec in each.operators}), None
        )
        if stage is None:
            names = [spec.name for each in self._program.plan.stages for spec in each.operators]
            raise ConfigError(f"The topology has no operator {operator!r}.", nearest(operator, names))
        return stage

    def rebalance(self, policy: str | None = None) -> list[dict[str, Any]]:
        """Place all tasks again by what was measured, and move those that have another place then."""
        name = policy or ("spread" if self._program.policy.rebalance == "off" else self._program.policy.rebalance)

        def ask(brain: CoordinatorBrain) -> list[Operation]:
            wanted = moves_to(self._program, brain, name, sorted(brain.members))
            return brain.operations.move_tasks(wanted, f"rebalance() by {name}")

        return self._carry_out(ask)

    @property
    def brain(self) -> CoordinatorBrain:
        """The coordinator's brain, to be looked at."""
        return self._brain

    def move_all(self, wanted: Sequence[Wanted], why: str) -> list[dict[str, Any]]:
        """Carry out the moves of a plan that was made elsewhere."""
        return self._carry_out(lambda brain: brain.operations.move_tasks(wanted, why))

    def scale(self, workers: int) -> list[dict[str, Any]]:
        """Let workers join and take their share, or move all tasks off the newest ones and let those leave."""
        if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
            raise ConfigError(f"A query has at least one worker; found {workers!r}.", "Give a whole number.")
        here = sorted(self._brain.members)
        leaving = here[workers:]
        joining: list[int] = []
        if workers > len(here):
            self._loop.ask(lambda brain, _: joining.extend(brain.membership.expect(workers - len(here))))
            try:
                self._host.add(self._boot, joining)
                self._await_open(joining)
            except BaseException:
                self._loop.ask(lambda brain, _: _send_away(brain, joining))
                raise

        def ask(brain: CoordinatorBrain) -> list[Operation]:
            stay = [slot for slot in sorted(brain.members) if slot not in leaving]
            return brain.operations.move_tasks(moves_to(self._program, brain, "spread", stay), f"scale({workers})")

        told = self._carry_out(ask)
        if leaving:
            self._carry_out(lambda brain: brain.operations.leave(leaving, f"scale({workers})"))
        return told

    def _await_open(self, slots: list[int]) -> None:
        deadline_s = time.monotonic() + self._program.settings.register_timeout_s
        members = self._brain.members
        while not all(slot in members and members[slot].open for slot in slots):
            if self._brain.state == "ended":
                raise MoveError("The query has ended before its workers had joined.")
            if time.monotonic() > deadline_s:
                raise MoveError(
                    f"{len(slots)} more workers were expected within {self._program.settings.register_timeout_s:.0f} s;"
                    f" {sum(slot in members for slot in slots)} came.",
                    "Is there room for them? Spark gives each worker a task slot of its own.",
                )
            time.sleep(_POLL_S)

    def _carry_out(self, ask: Callable[[CoordinatorBrain], list[Operation]]) -> list[dict[str, Any]]:
        """Ask for operations and wait until they are carried out; raises what one was undone for."""
        asked: list[Operation] = []
        self._loop.ask(lambda brain, _: asked.extend(ask(brain)))
        while not all(operation.over for operation in asked):
            if self._brain.state == "ended":
                raise MoveError("The query has ended before its tasks had moved.")
            time.sleep(_POLL_S)
        for operation in asked:
            if operation.state == UNDONE:
                raise operation.failure()
        return [self._brain.operations.row(operation) for operation in asked]


def _send_away(brain: CoordinatorBrain, slots: list[int]) -> None:
    """Let workers go that were to join: those that have not come at once, the others unless they have tasks by now."""
    brain.membership.dismiss(slot for slot in slots if slot not in brain.members)
    came = [slot for slot in slots if slot in brain.members]
    if came and brain.state == "running":
        brain.operations.leave(came, "not all workers have joined")
