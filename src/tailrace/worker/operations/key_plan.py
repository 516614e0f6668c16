"""What one worker keeps of a move of key groups: which go from here, which come, and how far each has got.

Plain data of ``key_move`` and ``key_transfer``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tailrace.worker.execution.task import Task
    from tailrace.worker.operations.state_transfer import Departure
    from tailrace.worker.snapshots.key_group_snapshot import KeyGroupArrival, Waiting


class Row(NamedTuple):
    """Some groups that go from one task to another, and their place in the order."""

    at: int
    old: int
    new: int
    groups: frozenset[int]


@dataclass
class Giving:
    """A task of this worker that lets groups go.

    It ``runs``, gets no more turns (``still``), is ``packed``, has ``asked`` whether what it gave has arrived, and is
    ``cleared``.
    """

    task: Task
    rows: list[Row]
    state: str = "runs"
    next_tick_ns: int | None = None
    #: Per row, what is sent to the new task where that is in another worker.
    departures: dict[int, Departure] = field(default_factory=dict)
    #: What waited in its inbox and stays there, of how many batches; more may come before it goes on.
    stays: list[Waiting] = field(default_factory=list)
    batches: int = 0

    @property
    def groups(self) -> frozenset[int]:
        """All groups that go."""
        return frozenset[int]().union(*(row.groups for row in self.rows))


@dataclass
class Taking:
    """A task of this worker that some groups come to: it ``runs``, stands ``still``, and the groups are ``installed``.

    Only one row of several to the same task freezes it.
    """

    task: Task
    row: Row
    state: str = "runs"
    froze: bool = False
    next_tick_ns: int | None = None
    #: What came with the groups.
    parcel: KeyGroupArrival | None = None
