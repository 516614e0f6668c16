"""A plan of moves as one worker keeps it: which tasks go from here, which have come, which ways are paused.

Plain data of ``mover`` and ``task_restore``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tailrace.sending.outbox import Outbox
    from tailrace.worker.execution.task import Task
    from tailrace.worker.migration.state_transfer import Outgoing


class Move(NamedTuple):
    """One task of a plan: its stage and number, where it was and where it goes."""

    stage: int
    task: int
    old: int
    new: int


@dataclass
class Leaving:
    """A task that goes from here."""

    place: int
    move: Move
    task: Task
    #: It gets no more turns; then no piece of its work is out either, and it is on its way.
    still: bool = False
    frozen: bool = False
    cleared: bool = False
    next_tick_ns: int | None = None
    #: What is sent to its new place, once it is packed.
    parcel: Outgoing | None = None
    #: Channels out of it whose receivers have yet to say that everything sent from here is there.
    unseen: set[int] = field(default_factory=set)


@dataclass
class MovePlan:
    """A plan as one worker sees it."""

    epoch: int
    moves: dict[tuple[int, int], Move]
    leaving: list[Leaving]
    #: Outboxes of this worker to tasks that move, with where those go.
    paused: list[tuple[Outbox, int]]
    arrived: list[Task] = field(default_factory=list)


def channel_epoch_of(epoch: int, *, undone: bool = False) -> int:
    """The epoch of the channels of a task after a plan was carried out, or after it was undone."""
    return 2 * epoch + undone
