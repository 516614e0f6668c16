"""The state of a task as a ``TaskSnapshot``, and a task that goes on from one.

Taken between two pieces of a task's work, whole for a move of the task, of some key groups for a move of those, and
down to some marks for a checkpoint. Restored into a task that was built again and opened. Touches nothing but the task.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tailrace.acking.dedup import Deduplicator
from tailrace.checkpoint.keyed import delta_of, keyed_part
from tailrace.program.errors import MoveError
from tailrace.state.backend import Delta
from tailrace.state.snapshot import OperatorSnapshot, SourceSnapshot, TaskSnapshot
from tailrace.transport import codec
from tailrace.worker.execution.keyed_steps import StatefulStep
from tailrace.worker.snapshots.remembered import decode_outputs, encode_outputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tailrace.state.snapshot import DeduplicatorSnapshot
    from tailrace.worker.execution.steps import Step
    from tailrace.worker.execution.task import Task


def take(task: Task, marks: Mapping[int, int] | None = None) -> TaskSnapshot:
    """Describe a task that stands still; with marks only what roots at or above them may still ask for."""
    operators = {}
    for name, step in task.chain.steps.items():
        keyed = [keyed_part(_all_of(step))] if isinstance(step, StatefulStep) else []
        user = None if task.closed and not step.outlives_input else _user_part(task, step)
        if keyed or user is not None:
            operators[name] = OperatorSnapshot(keyed, user=user)
    return TaskSnapshot(
        task.stage.id,
        task.index,
        operators,
        _deduplicator_part(task, marks),
        None
        if task.source is None
        else SourceSnapshot(task.source.ledger.next_offsets(), task.source.ledger.low_water()),
        task.closed,
    )


def take_unkeyed(task: Task, marks: Mapping[int, int]) -> TaskSnapshot:
    """Describe all of a task but its keyed state, for a checkpoint: that is drawn bit by bit afterwards."""
    operators = {}
    for name, step in task.chain.steps.items():
        user = None if task.finished and not step.outlives_input else _user_part(task, step)
        if user is not None or isinstance(step, StatefulStep):
            operators[name] = OperatorSnapshot(user=user)
    return TaskSnapshot(task.stage.id, task.index, operators, _deduplicator_part(task, marks))


def take_groups(task: Task, groups: frozenset[int]) -> TaskSnapshot:
    """Describe what belongs to some key groups: the states of their keys, and all that the deduplicator knows.

    A lineage does not tell which keys it was about, so that part is not divided.
    """
    operators = {
        name: OperatorSnapshot([keyed_part(_all_of(step, groups), groups=sorted(groups))])
        for name, step in stateful(task)
    }
    return TaskSnapshot(task.stage.id, task.index, operators, _deduplicator_part(task, None))


def restore(task: Task, snapshot: TaskSnapshot) -> None:
    """Let a task that was built again have the state of a snapshot."""
    for name, step in stateful(task):
        for keyed in snapshot.operators[name].keyed if name in snapshot.operators else ():
            step.state.apply(delta_of(keyed))
    restore_unkeyed(task, snapshot)
    task.finished = task.closed = task.closing = snapshot.closed


def restore_unkeyed(task: Task, snapshot: TaskSnapshot) -> None:
    """Let a task that was built again have all of a snapshot but the keyed state."""
    for name, part in snapshot.operators.items():
        user = task.chain.steps[name].user_state
        if user is not None and part.user is not None:
            user.restore(codec.loads(part.user))
    if snapshot.deduplicator is not None:
        task.deduplicator = restored_deduplicator(task, snapshot.deduplicator)


def stateful(task: Task) -> Iterator[tuple[str, StatefulStep]]:
    """The operators of a task that keep state by key."""
    for name, step in task.chain.steps.items():
        if isinstance(step, StatefulStep):
            yield name, step


def restored_deduplicator(task: Task, snapshot: DeduplicatorSnapshot) -> Deduplicator:
    """Make a deduplicator that knows what a snapshot tells, and sends outputs again through the task's outlets."""
    before = task.deduplicator
    found = Deduplicator() if before is None else Deduplicator(before.first_incarnation)
    found.restore(snapshot, partial(decode_outputs, outlets=task.outlets))
    return found


def _all_of(step: StatefulStep, groups: frozenset[int] | None = None) -> Delta:
    return Delta(dict(step.state.items(groups)), {}, [])


def _deduplicator_part(task: Task, marks: Mapping[int, int] | None) -> DeduplicatorSnapshot | None:
    return None if task.deduplicator is None else task.deduplicator.snapshot(encode_outputs, marks)


def _user_part(task: Task, step: Step) -> bytes | None:
    """What the user's object has to say about itself."""
    user = step.user_state
    if user is None:
        return None
    state = user.snapshot()
    try:
        return codec.dumps(state)
    except Exception:
        _find_fault(task, step, state)
        raise


def _find_fault(task: Task, step: Step, state: Any) -> None:
    """Say which part of a user's object cannot be encoded."""
    parts = state.items() if isinstance(state, dict) else [("snapshot()", state)]
    for name, part in parts:
        try:
            codec.dumps(part)
        except Exception as error:  # noqa: PERF203 - only to say which part it is
            raise MoveError(
                f"Task {task.index} of {step.spec.name!r} cannot move: {name!r} of its object cannot be sent to "
                f"another worker: {type(error).__name__}: {error}.",
                "Give the class snapshot() and restore(state) that leave such things out; open() makes them again.",
            ) from error
