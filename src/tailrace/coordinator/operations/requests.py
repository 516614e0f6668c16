"""The operations of a query, as the coordinator's brain and those who decide ask for them.

Checks what is asked for, makes the operation, hands events to ``machine`` one after the other and carries its
instructions out: on the brain and, by its messages, on the workers. Owned by the brain.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace import protocol
from tailrace.coordinator.operations import events, instructions
from tailrace.coordinator.operations.cluster import ClusterView
from tailrace.coordinator.operations.key_move import KeyMove, tasks_of, wanted_groups
from tailrace.coordinator.operations.machine import OperationMachine
from tailrace.coordinator.operations.policy_switch import PolicySwitch
from tailrace.coordinator.operations.scaling import WorkersJoin, WorkersLeave
from tailrace.coordinator.operations.task_move import TaskMove, check_may_move
from tailrace.program.errors import MoveError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tailrace.coordinator.brain import CoordinatorBrain
    from tailrace.coordinator.operations.events import Event
    from tailrace.coordinator.operations.instructions import Instruction
    from tailrace.coordinator.operations.operation import Operation
    from tailrace.coordinator.operations.task_move import Wanted


class OperationRequests:
    """What is asked for, and what becomes of it."""

    def __init__(self, brain: CoordinatorBrain) -> None:
        self._brain = brain
        self.cluster = ClusterView(brain)
        self._machine = OperationMachine()
        self._events: deque[Event] = deque()
        self._handling = False
        self._now_ns = 0
        #: Tasks that have moved so far.
        self.moved = 0

    @property
    def idle(self) -> bool:
        """Whether nothing is under way or waits."""
        return self._machine.idle

    @property
    def machine(self) -> OperationMachine:
        """The machine, to be looked at."""
        return self._machine

    @property
    def told(self) -> deque[Operation]:
        """The newest operations that users are told of, oldest first."""
        return self._machine.told

    # -- asking --------------------------------------------------------------------------------------------------

    def move_tasks(self, wanted: Iterable[Wanted], why: str) -> list[Operation]:
        """Ask for moves of tasks; raises where they cannot be. Gives one operation, or two: sources go first, alone.

        A source waits until nothing of it is open before it moves, which would never be if what it sent stood still in
        front of another task of the same operation.
        """
        brain, stages = self._brain, self._brain.program.plan.stages
        self._check_running()
        moves = [each for each in wanted if brain.placement[each[0]][each[1]] != each[2]]
        for stage, _, slot in moves:
            self._check_open(slot)
            check_may_move(brain.program, stage)
        parts = [[move for move in moves if stages[move[0]].is_source == is_source] for is_source in (True, False)]
        return self._ask([TaskMove(self.cluster, part, why) for part in parts if part])

    def move_keys(self, stage: int, groups: Mapping[int, int], why: str) -> list[Operation]:
        """Ask for key groups of a stage to go to these tasks; raises where they cannot. Gives one operation or none."""
        self._check_running()
        wanted = wanted_groups(self.cluster, stage, groups)
        return self._ask([KeyMove(self.cluster, stage, wanted, why)] if wanted else [])

    def switch_policies(self) -> None:
        """Let everyone go by the newest choice of policies."""
        self._ask([PolicySwitch(self.cluster, "another choice of policies")])

    def join(self) -> None:
        """Let those take part that have registered for new slots."""
        self._ask([WorkersJoin(self.cluster, "workers have registered")])

    def leave(self, slots: Iterable[int], why: str) -> list[Operation]:
        """Let workers go that have no tasks any more."""
        return self._ask([WorkersLeave(self.cluster, slots, why)])

    def key_tasks(self, stage: int) -> list[int]:
        """The task of each key group of a stage."""
        return tasks_of(self.cluster, stage)

    def _ask(self, operations: list[Operation]) -> list[Operation]:
        if operations and not operations[0].single:
            self._machine.check_room(len(operations))
        for operation in operations:
            self._handle(events.Asked(operation), self._now_ns)
        return operations

    def _check_running(self) -> None:
        brain = self._brain
        if brain.state != "running" or brain.draining:
            raise MoveError(f"Tasks move while a query runs; this one is {brain.state}.", "Wait until it runs.")

    def _check_open(self, slot: int) -> None:
        if slot not in self.cluster.open_slots:
            known = ", ".join(map(str, sorted(self.cluster.open_slots)))
            raise MoveError(f"Worker {slot} is not open; those that are: {known}.", "Choose one of them.")

    # -- what happens --------------------------------------------------------------------------------------------

    def tick(self, now_ns: int) -> None:
        """Time has passed."""
        self._handle(events.Passed(), now_ns)

    def on_message(self, slot: int, message: Any, now_ns: int) -> None:
        """Take in what a worker says about the operation under way."""
        self._handle(events.Heard(slot, message), now_ns)

    def on_open(self, slot: int) -> None:
        """A worker has opened its tasks."""
        self._handle(events.Opened(slot), self._now_ns)

    def on_lost(self, slot: int, now_ns: int) -> None:
        """A worker was lost."""
        self._handle(events.Lost(slot), now_ns)

    def abandon(self, now_ns: int) -> None:
        """All workers are about to be deployed again: what was decided is done, what was not is undone."""
        self._now_ns = max(self._now_ns, now_ns)
        self._machine.abandon(self._now_ns)

    def stop(self, reason: str, now_ns: int) -> None:
        """Undo what is not decided and begin nothing more: the query is about to end."""
        self._handle(events.Stopping(reason), now_ns)

    def _handle(self, event: Event, now_ns: int) -> None:
        """Let the machine take events in, each with all that follows from it before the next."""
        self._now_ns = max(self._now_ns, now_ns)
        self._events.append(event)
        if self._handling:
            return  # of an instruction that is being carried out
        self._handling = True
        try:
            while self._events:
                for instruction in self._machine.handle(self._events.popleft(), self._now_ns):
                    self._carry_out(instruction)
        finally:
            self._handling = False

    def _carry_out(self, instruction: Instruction) -> None:
        brain = self._brain
        match instruction:
            case instructions.Tell(message=message):
                brain.tell_all(message)
            case instructions.Place(stage=stage, task=task, slot=slot):
                brain.placement[stage][task] = slot
                self.moved += 1
            case instructions.SetTable(stage=stage, table=table):
                brain.tables[stage] = table
            case instructions.TellPolicies(epoch=epoch):
                brain.autopilot.present = msgspec.structs.replace(brain.autopilot.present, epoch=epoch)
                brain.tell_policies()
            case instructions.TellWeights():
                for edge, balance in brain.balancing.balances.items():
                    brain.tell_all(protocol.Weights(edge, list(balance.weights)))
            case instructions.Admit():
                brain.membership.admit()
            case instructions.Dismiss(slots=slots):
                brain.membership.dismiss(slots)
            case instructions.GiveUp(slots=slots):
                for slot in slots:
                    brain.on_gone(brain.members[slot].connection, self._now_ns)

    # -- telling -------------------------------------------------------------------------------------------------

    def rows(self) -> list[dict[str, Any]]:
        """What ``lastProgress`` and ``explain()`` show: the newest moves, oldest first."""
        return [self.row(operation) for operation in self._machine.told]

    def row(self, operation: Operation) -> dict[str, Any]:
        """Show one operation that moves something."""
        return {
            "epoch": operation.epoch,
            "moves": operation.moves(),
            "state": operation.phase,
            "why": operation.why,
            "reason": operation.reason,
            "pause_ms": round(operation.pause_ms, 3),
        }
