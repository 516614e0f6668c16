"""A plan of moves of key groups as one worker keeps it: which groups go from here, which come, which ways are paused.

Plain data of ``key_mover``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tailrace.sending.outbox import Outbox
    from tailrace.worker.execution.task import Task
    from tailrace.worker.migration.key_group_snapshot import KeyGroups, Waiting
    from tailrace.worker.migration.state_transfer import Outgoing


class Row(NamedTuple):
    """Some groups that go from one task to another, and their place in the plan."""

    at: int
    old: int
    new: int
    groups: frozenset[int]


@dataclass
class Giving:
    """A task of this worker that lets groups go."""

    task: Task
    rows: list[Row]
    frozen: bool = False
    next_tick_ns: int | None = None
    packed: bool = False
    #: Per row, what is sent to the new task where that is in another worker.
    parcels: dict[int, Outgoing] = field(default_factory=dict)
    #: What waited in its inbox and stays there, of how many batches; more may come before it goes on.
    stays: list[Waiting] = field(default_factory=list)
    batches: int = 0
    #: Whether receivers were asked, and the channels on which they have yet to say that everything is there.
    asked: bool = False
    unseen: set[int] = field(default_factory=set)
    cleared: bool = False

    @property
    def groups(self) -> frozenset[int]:
        """All groups that go."""
        return frozenset[int]().union(*(row.groups for row in self.rows))


@dataclass
class Taking:
    """A task of this worker that some groups come to."""

    task: Task
    row: Row
    frozen: bool = False
    next_tick_ns: int | None = None
    parcel: dict[str, Any] | None = None
    installed: bool = False


@dataclass
class KeyPlan:
    """A plan as one worker sees it."""

    epoch: int
    stage: int
    keys: KeyGroups
    rows: list[Row]
    giving: list[Giving]
    taking: dict[int, Taking]
    #: Outboxes of this worker to tasks that take part.
    paused: list[Outbox] = field(default_factory=list)
    #: Whether the coordinator was told that it cannot be carried out.
    failed: bool = False

    @property
    def waits(self) -> bool:
        """Whether this worker has done its part and waits for the coordinator."""
        given = all(each.cleared for each in self.giving)
        return self.failed or (given and all(each.installed for each in self.taking.values()))
