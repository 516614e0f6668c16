"""What is said about operations: changes that all workers carry out together. ``protocol`` has the rest."""

from __future__ import annotations

import msgspec

from tailrace.protocol.places import KeyTable  # noqa: TC001 - msgspec reads the fields' types


class Switch(msgspec.Struct, tag=True):
    """Coordinator: from now on these policies; of several messages the one with the highest epoch holds."""

    epoch: int
    routing: str
    inbox: str
    replay: str


class Pause(msgspec.Struct, tag=True):
    """Coordinator: these tasks move; each row has stage, task, the old slot and the new one."""

    epoch: int
    moves: list[list[int]]


class HoldSources(msgspec.Struct, tag=True):
    """Coordinator: read nothing for a moment, and say how far you have read.

    Where a source had to be restarted, its predecessor may have read further: then the tasks of the stage stand still
    too, and what they have let through counts as read.
    """

    epoch: int
    stage: int
    restarted: bool = False


class Held(msgspec.Struct, tag=True):
    """Worker: I read nothing; the next offset of each partition, and the first incarnation of its source."""

    epoch: int
    offsets: dict[int, int]
    incs: dict[int, int] = {}


class Regroup(msgspec.Struct, tag=True):
    """Coordinator: from now on the stage's key groups go by this table."""

    epoch: int
    stage: int
    table: KeyTable


class PauseKeys(msgspec.Struct, tag=True):
    """Coordinator: key groups of this stage move; each row has the old task, the new one and the groups."""

    epoch: int
    stage: int
    moves: list[tuple[int, int, list[int]]]


class Cleared(msgspec.Struct, tag=True):
    """Worker: what leaves in this row of ``Pause`` or ``PauseKeys`` is on its way, and all it sent has arrived."""

    epoch: int
    row: int


class Installed(msgspec.Struct, tag=True):
    """Worker: what comes in this row of ``Pause`` or ``PauseKeys`` is here and waits."""

    epoch: int
    row: int


class OperationFailed(msgspec.Struct, tag=True):
    """Worker: the operation cannot be carried out, and why."""

    epoch: int
    message: str
    hint: str


class Relocate(msgspec.Struct, tag=True):
    """Coordinator: all tasks that move are at their new places; send to those."""

    epoch: int


class Switched(msgspec.Struct, tag=True):
    """Worker: I go by what was decided: by ``Relocate``, ``Regroup`` or ``Switch``."""

    epoch: int


class GoOn(msgspec.Struct, tag=True):
    """Coordinator: everyone goes by what was decided; sources that stood still may read."""

    epoch: int


class Undo(msgspec.Struct, tag=True):
    """Coordinator: the operation is given up; go on as before."""

    epoch: int


class Leave(msgspec.Struct, tag=True):
    """Coordinator: a worker has no tasks any more and leaves; to itself, that it may end."""

    slot: int
