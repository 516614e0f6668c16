"""What must always hold in the coordinator, checked between two calls of its brain by every deterministic test.

Asked through ``CoordinatorBrain.validate``; touches nothing but what it remembers of the last look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from tailrace.coordinator.operations.machine import WAITING_MAX
from tailrace.coordinator.operations.operation import WAITING
from tailrace.program.errors import InvariantError
from tailrace.routing import key_table

if TYPE_CHECKING:
    from tailrace.coordinator.brain import CoordinatorBrain
    from tailrace.coordinator.operations.operation import Operation
    from tailrace.protocol import KeyTable


class CoordinatorInvariants:
    """What holds in one query's coordinator."""

    def __init__(self, brain: CoordinatorBrain) -> None:
        self._brain = brain
        #: The low-water marks, the newest epoch and the attempts of slots at the last look.
        self._marks: dict[int, int] = {}
        self._execution = 0
        self._epoch = 0
        self._attempts: dict[int, int] = {}
        #: The tables that were looked at.
        self._tables: dict[int, KeyTable] = {}

    def check(self) -> None:
        """Raise ``InvariantError`` where something does not hold."""
        self._check_members()
        if self._brain.placement:
            self._check_placement()
        self._check_operations()
        checkpoints = self._brain.checkpoints
        execution = 0 if checkpoints is None else checkpoints.execution
        if execution != self._execution:  # everyone began again from a cut
            self._execution, self._marks = execution, {}
        for partition, mark in self._brain.marks.items():
            before = self._marks.get(partition, mark)
            if mark < before:
                _fail(f"the mark of partition {partition} went back from {before} to {mark}")
            self._marks[partition] = mark

    def _check_members(self) -> None:
        for slot, member in self._brain.members.items():
            if member.deployed and not member.alive:
                _fail(f"worker {slot} is lost and counts as deployed")
            if member.open and not member.deployed:
                _fail(f"worker {slot} is open without having been deployed")
            if member.waits and member.deployed:
                _fail(f"worker {slot} was deployed before it has joined")
            before = self._attempts.get(slot, member.attempt)
            if member.attempt < before:
                _fail(f"worker {slot} went back from attempt {before} to {member.attempt}")
            self._attempts[slot] = member.attempt

    def _check_placement(self) -> None:
        brain, stages = self._brain, self._brain.program.plan.stages
        if [len(row) for row in brain.placement] != [stage.tasks for stage in stages]:
            _fail("the placement does not have a slot for every task")
        strangers = {slot for row in brain.placement for slot in row} - brain.members.keys()
        if strangers:
            _fail(f"tasks are placed on workers {sorted(strangers)}, which there are not")
        for stage, table in brain.tables.items():
            if self._tables.get(stage) is not table:
                self._tables[stage] = table
                tasks = set(key_table.tasks_of(table, stages[stage].tasks))
                if not tasks <= set(range(stages[stage].tasks)):
                    _fail(f"key groups of stage {stage} are at tasks {sorted(tasks)}")

    def _check_operations(self) -> None:
        machine = self._brain.operations.machine
        if machine.epoch < self._epoch:
            _fail(f"the epoch went back from {self._epoch} to {machine.epoch}")
        self._epoch = machine.epoch
        waiting = sum(not each.single for each in machine.waiting)
        if waiting > WAITING_MAX:
            _fail(f"{waiting} operations wait, and {WAITING_MAX} may")
        for operation in machine.waiting:
            if operation.state != WAITING:
                _fail(f"an operation that waits is in state {operation.state!r}")
        for operation in machine.told:
            if not operation.over and operation is not machine.active:
                _fail(f"operation {operation.epoch} is under way besides another one")
        if machine.active is not None:
            self._check_active(machine.active)

    def _check_active(self, operation: Operation) -> None:
        if operation.epoch != self._epoch:
            _fail(f"operation {operation.epoch} is under way and not the newest, which is {self._epoch}")
        if operation.state not in operation.states:
            _fail(f"the operation under way is in state {operation.state!r}")
        for awaited in operation.awaited:
            member = self._brain.members.get(awaited.slot)
            if member is None or not member.alive or member.waits:
                _fail(f"operation {operation.epoch} waits for worker {awaited.slot}, which is gone")
            operation.described(awaited)  # names a row that there is


def _fail(what: str) -> NoReturn:
    raise InvariantError(f"Coordinator: {what}.", "This is a fault in Tailrace; please tell us how it came about.")
