"""The state of a drained savepoint, dealt to the tasks of another plan and written as parts of a checkpoint.

Nothing was in flight when it was made, so no lineage, no output and no root of a task's own is remembered in it: state
by key goes with the key's group, other state with its task or as its class says, offsets with their partitions.
Called by ``begin`` on the driver, which has the whole state in memory meanwhile.
"""

from __future__ import annotations

import copy
import secrets
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.checkpoint import keyed, sealing
from tailrace.checkpoint.errors import CheckpointCorruptError, NotDividedError, SavepointFailedError
from tailrace.checkpoint.log import part_name
from tailrace.checkpoint.manifest import PartitionRow, TaskRow
from tailrace.checkpoint.part import TaskPart, WorkerPart, decode_part, encode_part
from tailrace.checkpoint.savepoint import whole_object
from tailrace.checkpoint.stores.store import claim
from tailrace.routing.fields import GroupIndex, even_groups
from tailrace.state.backend import Delta
from tailrace.state.named import user_key
from tailrace.state.snapshot import OperatorSnapshot, TaskSnapshot
from tailrace.topology.operators import KEYED_VERBS, HasSnapshot, attributes_of
from tailrace.transport import codec

from .shape import edge_rows, operator_rows, route_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.checkpoint.manifest import Manifest
    from tailrace.checkpoint.savepoint import FoundSavepoint, Savepoint
    from tailrace.checkpoint.stores.store import ObjectStore
    from tailrace.program.program import Program
    from tailrace.topology.operators import OperatorSpec
    from tailrace.topology.plan import Stage


def regrouped(
    found: FoundSavepoint, target: ObjectStore, restore: Savepoint, program: Program, partitions: list[list[Any]]
) -> Manifest:
    """Write the state as the tasks of a program need it; gives the entry that lists it."""
    manifest, plan = found.manifest, program.plan
    before = _StateBefore(found)
    if before.finished and operator_rows(plan) != manifest.operators:
        raise NotDividedError(
            f"The input of {min(head for head, _ in before.finished)!r} had come to its end when the savepoint was "
            "made, and what its tasks give at the end was given; other tasks would give it again.",
            "Resume with the operators and task counts that it was made with.",
        )
    snapshots = _Dealer(before, restore, program).snapshots()
    writer = f"restored-{secrets.token_hex(8)}"
    rows: list[TaskRow] = []
    for snapshot in snapshots:
        head = plan.stages[snapshot.stage].head.name
        name = part_name(manifest.epoch, manifest.attempt, manifest.execution, f"{writer}-{len(rows)}")
        part = TaskPart(snapshot, (head, snapshot.task) in before.finished)
        claim(target, name, encode_part(WorkerPart(manifest.epoch, [part])))
        rows.append(TaskRow(head, snapshot.task, (name,)))
    return msgspec.structs.replace(
        manifest,
        operators=operator_rows(plan),
        partitions=tuple(_partition(manifest, restore, program, row) for row in partitions),
        tasks=tuple(rows),
        tables={},
        driver=(),
        numbers={},
        key_groups=program.settings.key_groups,
        edges=edge_rows(plan),
        routes=route_rows(program),
        origins=(),
    )


def _partition(manifest: Manifest, restore: Savepoint, program: Program, row: list[Any]) -> PartitionRow:
    """Where a partition begins: a source's where it was, one of a task's own anew."""
    number, stage, _, name = row
    drawn = program.plan.stages[stage]
    operator = drawn.head.name
    for each in manifest.partitions:
        if drawn.is_source and operator not in restore.new and (each.operator, each.name) == (operator, name):
            if each.mark != each.offset:
                raise CheckpointCorruptError(
                    f"The savepoint counts as drained, and of {operator!r} {name!r} {each.offset - each.mark} roots "
                    "are open in it.",
                    "This is a fault in Tailrace; please tell us how it came about.",
                )
            return PartitionRow(number, operator, name, each.mark, each.offset)
    return PartitionRow(number, operator, name)


class _StateBefore:
    """What is in a savepoint, by operator."""

    def __init__(self, found: FoundSavepoint) -> None:
        self.manifest = found.manifest
        #: All keys of an operator, whichever task had them.
        self.keyed: dict[str, Delta] = defaultdict(lambda: Delta({}, {}, []))
        #: What the objects of an operator's tasks remember, encoded.
        self.users: dict[str, dict[int, bytes]] = defaultdict(dict)
        #: Tasks that had come to their end, by the operator that their stage begins with.
        self.finished: set[tuple[str, int]] = set()
        parts = {
            name: decode_part(whole_object(found.store, name, sealing.PART), name)
            for name in sorted({name for row in found.manifest.tasks for name in row.objects})
        }
        # Parts say the number of their stage; rows are in the order of stages.
        heads = list(dict.fromkeys(row.operator for row in found.manifest.tasks))
        numbers = sorted({part.snapshot.stage for each in parts.values() for part in each.tasks})
        if len(heads) != len(numbers):
            raise CheckpointCorruptError(
                f"The savepoint at {found.store.address} lists the state of {len(heads)} stages, and its objects have "
                f"that of {len(numbers)}.",
                "Was it put together from two?",
            )
        number = dict(zip(heads, numbers, strict=True))
        for row in found.manifest.tasks:
            for name in row.objects:
                self._take(row, _part_of(parts[name], number[row.operator], row, name), row.objects[-1] == name)

    def _take(self, row: TaskRow, part: TaskPart, newest: bool) -> None:
        if newest and (part.own or part.driver):
            raise CheckpointCorruptError(
                f"The savepoint counts as drained, and something that task {row.task} of {row.operator!r} gave by "
                "itself is under way in it.",
                "This is a fault in Tailrace; please tell us how it came about.",
            )
        for operator, snapshot in part.snapshot.operators.items():
            for each in snapshot.keyed:
                keyed.take_over(self.keyed[operator], keyed.delta_of(each))
            if newest and snapshot.user is not None:
                self.users[operator][row.task] = snapshot.user
        if newest and part.finished:
            self.finished.add((row.operator, row.task))


def _part_of(whole: WorkerPart, stage: int, row: TaskRow, name: str) -> TaskPart:
    for part in whole.tasks:
        if (part.snapshot.stage, part.snapshot.task) == (stage, row.task):
            return part
    raise CheckpointCorruptError(
        f"{name} has nothing of task {row.task} of {row.operator!r}, which the manifest says it has.",
        "Was the savepoint put together from two?",
    )


class _Dealer:
    """Deals state to the tasks of a program."""

    def __init__(self, before: _StateBefore, restore: Savepoint, program: Program) -> None:
        self._before = before
        self._restore = restore
        self._program = program
        self._tasks_before = {row.name: row.tasks for row in before.manifest.operators}
        #: Operators whose state cannot be divided.
        self._whole: list[str] = []

    def snapshots(self) -> list[TaskSnapshot]:
        """What each task with a part begins with, stage by stage."""
        found: list[TaskSnapshot] = []
        for stage in self._program.plan.stages:
            if not stage.guarded:
                continue
            operators = {spec.name: self._operator(spec, stage) for spec in stage.operators}
            found += [
                TaskSnapshot(stage.id, task, {name: each[task] for name, each in operators.items() if each})
                for task in range(stage.tasks)
            ]
        if self._whole:
            raise NotDividedError(
                f"What these operators remember cannot be dealt to other tasks: {', '.join(self._whole)}.",
                "Keep what belongs to a key in the state of a KeyedOperator, give the class a static method "
                "rescale(states, tasks, task_of) that gives a list of states, or resume with as many tasks as before.",
            )
        return found

    def _operator(self, spec: OperatorSpec, stage: Stage) -> list[OperatorSnapshot]:
        """What the tasks of a stage begin with of one operator; empty where that is nothing."""
        users = self._users(spec, stage)
        if spec.verb not in KEYED_VERBS:
            return [OperatorSnapshot(user=user) for user in users] if any(each is not None for each in users) else []
        deltas = self._keyed(spec, stage)
        return [
            OperatorSnapshot([keyed.keyed_part(delta)], user=user) for delta, user in zip(deltas, users, strict=True)
        ]

    def _begins_anew(self, spec: OperatorSpec) -> bool:
        return spec.name in self._restore.new or spec.name not in self._tasks_before

    def _keyed(self, spec: OperatorSpec, stage: Stage) -> list[Delta]:
        whole = Delta({}, {}, []) if self._begins_anew(spec) else self._before.keyed[spec.name]
        fn = self._restore.migrate.get(spec.name)
        if fn is not None:
            _check_plain(spec.name, whole)
            whole = _migrated(spec.name, keyed.changed, whole, fn)
        task_of = self._task_of(spec, stage)
        if task_of is None:
            raise NotDividedError(
                f"The keys of {spec.name!r} do not come to its tasks by their groups.",
                "Draw its input with .key_by(fn).",
            )
        return keyed.dealt(whole, stage.tasks, task_of)

    def _task_of(self, spec: OperatorSpec, stage: Stage) -> Callable[[Any], int] | None:
        """The task that a key goes to, as senders find it; None where input does not go by key."""
        edges = self._program.plan.inputs[stage.id]
        if stage.tasks == 1:
            return lambda _: 0
        if spec.name != stage.head.name or not edges or any(edge.grouping.kind != "fields" for edge in edges):
            return None
        tasks = even_groups(stage.tasks, self._program.settings.key_groups)
        groups = GroupIndex(len(tasks))
        return lambda key: tasks[groups[user_key(key)]]

    def _users(self, spec: OperatorSpec, stage: Stage) -> list[bytes | None]:
        """What the object of each task remembers."""
        before = {} if self._begins_anew(spec) else self._before.users.get(spec.name, {})
        states = [before.get(task) for task in range(self._tasks_before.get(spec.name, 0))]
        nothing: list[bytes | None] = [None] * stage.tasks
        if all(state is None for state in states):
            return nothing
        fn = self._restore.migrate.get(spec.name)
        if fn is not None and spec.verb not in KEYED_VERBS:
            states = [None if state is None else _migrated(spec.name, _remade, state, fn) for state in states]
        task_of = self._task_of(spec, stage)
        stays = stage.tasks == 1 or task_of is None or not self._groups_moved(spec)
        if len(states) == stage.tasks and stays:
            return states
        loaded = [codec.loads(state) for state in states if state is not None]
        rescale = getattr(spec.fn if isinstance(spec.fn, type) else type(spec.fn), "rescale", None)
        if rescale is not None:
            return [codec.dumps(state) for state in _rescaled(spec, rescale, loaded, stage.tasks, task_of)]
        fresh = _fresh_state(spec)
        if not all(state is None or _equal(state, {}) or _equal(state, fresh) for state in loaded):
            self._whole.append(f"{spec.name!r} ({len(states)} tasks before, {stage.tasks} now)")
        return nothing

    def _groups_moved(self, spec: OperatorSpec) -> bool:
        """Whether keys have other tasks although there are as many of them."""
        manifest = self._before.manifest
        return manifest.key_groups != self._program.settings.key_groups or spec.name in manifest.tables


def _check_plain(name: str, whole: Delta) -> None:
    """Refuse to migrate what a function would get in pieces that are none of its business."""
    if any(user_key(key) is not key for key in (*whole.values, *whole.encoded)):
        raise SavepointFailedError(
            f"{name!r} declares its states by name, and migrate is for the one state that process() gets.",
            "Give a state that changes its meaning another name, and read the old one until its keys have come again.",
        )


def _remade(state: bytes, fn: Callable[[Any], Any]) -> bytes:
    return codec.dumps(fn(codec.loads(state)))


def _migrated(name: str, change: Callable[[Any, Any], Any], state: Any, fn: Callable[..., Any]) -> Any:
    """Let a function of the user's make another state."""
    try:
        return change(state, fn)
    except Exception as error:
        raise SavepointFailedError(
            f"The function that migrate has for {name!r} failed: {type(error).__name__}: {error}.",
            "It gets the key and its state; or, where state is not by key, what snapshot() gave.",
        ) from error


def _rescaled(
    spec: OperatorSpec,
    rescale: Callable[..., Any],
    states: list[Any],
    tasks: int,
    task_of: Callable[[Any], int] | None,
) -> list[Any]:
    """Let a user's class deal its states."""
    try:
        found = list(rescale(states, tasks, task_of))
    except Exception as error:
        raise SavepointFailedError(
            f"rescale() of {spec.name!r} failed: {type(error).__name__}: {error}.",
            "It gets the states, the number of tasks, and a function that tells a key's task.",
        ) from error
    if len(found) != tasks:
        raise SavepointFailedError(
            f"rescale() of {spec.name!r} should give a state for each of {tasks} tasks; it gave {len(found)}.",
            "Give as many states as tasks, of those that get nothing what snapshot() tells at first.",
        )
    return found


def _fresh_state(spec: OperatorSpec) -> Any:
    """What an object tells that has seen nothing: nothing is lost with that."""
    user = spec.fn() if isinstance(spec.fn, type) else copy.deepcopy(spec.fn)
    return user.snapshot() if isinstance(user, HasSnapshot) else attributes_of(user)


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - arrays and the like cannot say so; then they count as different
        return False
