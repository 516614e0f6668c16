"""What goes with key groups from one task to another: their state, what waits for them, and what the guard remembers.

Called by ``operations`` at both ends. ``KeyGroups`` knows the group of every tuple and of every key that has state;
touches nothing but the task it is given. Times travel as ages: two workers share no clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from tailrace.batch import HEAD_PLACES, Batch, numbers
from tailrace.checkpoint.keyed import delta_of
from tailrace.program.channels import channel_bases
from tailrace.routing.fields import GroupIndex, group_count
from tailrace.state import snapshot
from tailrace.worker.snapshots import queues, task_state
from tailrace.worker.snapshots.transit import KeyGroupParcel

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.acking.dedup import Deduplicator
    from tailrace.program.program import Program
    from tailrace.receiving.inbox import Channel, Inbox
    from tailrace.state.backend import Delta
    from tailrace.worker.execution.task import Task

Waiting = tuple["Channel", Batch, int]


@dataclass(frozen=True)
class KeyGroupArrival:
    """What has come with some groups, decoded, for a task that does not have it yet."""

    states: dict[str, list[Delta]]
    deduplicator: Deduplicator | None
    #: By which channel of the old task each batch came, and how old it is.
    waiting: list[tuple[int, Batch, int]]


class KeyGroups:
    """The key groups of one stage, as a worker meets them."""

    def __init__(self, program: Program, stage: int) -> None:
        self._stage = program.plan.stages[stage]
        self._edges = program.plan.inputs[stage]
        self._bases = channel_bases(program.plan)
        self._group = GroupIndex(group_count(self._stage.tasks, program.settings.key_groups))
        #: What counts gets the keys themselves.
        self._keys = {edge.id: None if self._stage.head.verb == "count" else edge.grouping.fn for edge in self._edges}

    def way_of(self, channel: int) -> tuple[int, int]:
        """The edge and the sending task of a channel."""
        edge = max((edge.id for edge in self._edges if self._bases[edge.id] <= channel), key=self._bases.__getitem__)
        return edge, (channel - self._bases[edge]) // self._stage.tasks

    def channel_of(self, way: tuple[int, int], task: int) -> int:
        """The channel by which a task gets what comes this way."""
        return self._bases[way[0]] + way[1] * self._stage.tasks + task

    def picks(self, edge: int, groups: frozenset[int]) -> Callable[[Any], bool]:
        """Tells of a value of an edge whether it belongs to some groups."""
        key, group = self._keys[edge], self._group
        if key is None:
            return lambda value: group[value] in groups
        return lambda value: group[key(value)] in groups

    def divide(self, waiting: list[Waiting], groups: frozenset[int]) -> tuple[list[Waiting], list[Waiting]]:
        """Divide what waits for a task into what stays and what goes with some groups."""
        stay: list[Waiting] = []
        go: list[Waiting] = []
        for channel, batch, since_ns in waiting:
            stays, goes = split(batch, self.picks(self.way_of(channel.id)[0], groups))
            if stays is not None:
                stay.append((channel, stays, since_ns))
            if goes is not None:
                go.append((channel, goes, since_ns))
        return stay, go


def own_inbox(task: Task) -> Inbox:
    """The inbox of a task whose input goes by key: never one that is shared."""
    return cast("Inbox", task.inbox)


def split(batch: Batch, goes: Callable[[Any], bool]) -> tuple[Batch | None, Batch | None]:
    """Divide a batch by value into what stays and what goes; None where nothing does.

    Of tracked bundles each goes or stays as a whole: it was cut so. Only what hangs on no root, and what is left of
    roots that are complete, was cut before; it is never sent again, so its halves may go by one name.
    """
    marks = [goes(value) for value in batch.values]
    if not any(marks):
        return batch, None
    if all(marks):
        return None, batch
    parts = Batch([], [], numbers()), Batch([], [], numbers())
    at = 0
    for bundle in range(batch.bundles):
        size = 1 if batch.sizes is None else batch.sizes[bundle]
        for part, wanted in zip(parts, (False, True), strict=True):
            picked = [value for value, mark in zip(batch.values[at : at + size], marks[at : at + size], strict=True)
                      if mark is wanted]  # fmt: skip
            if picked:
                part.values += picked
                part.sizes.append(len(picked))  # type: ignore[union-attr]
                part.heads += batch.heads[bundle * HEAD_PLACES : (bundle + 1) * HEAD_PLACES]
        at += size
    if not batch.heads:
        parts[0].sizes = parts[1].sizes = None
    return parts


def pack(task: Task, groups: frozenset[int], waiting: list[Waiting], now_ns: int) -> bytes:
    """Describe what goes with some groups from a task that stands still; it stays as it is, in case of an undo."""
    return snapshot.encode(
        KeyGroupParcel(task_state.take_groups(task, groups), queues.waiting_batches(waiting, now_ns))
    )


def unpack(task: Task, data: bytes) -> KeyGroupArrival:
    """Decode what comes to a task with some groups; whatever a user's values raise is raised here."""
    parcel = snapshot.decode(data, KeyGroupParcel)
    operators, known = parcel.snapshot.operators, parcel.snapshot.deduplicator
    return KeyGroupArrival(
        {name: [delta_of(keyed) for keyed in part.keyed] for name, part in operators.items()},
        None if known is None else task_state.restored_deduplicator(task, known),
        [(each.channel, queues.batch_of(each), each.age_ns) for each in parcel.waiting],
    )


def take_in(task: Task, keys: KeyGroups, arrival: KeyGroupArrival, now_ns: int) -> None:
    """Let a task have what came with some groups; what waited for them comes before all that has come since."""
    for name, step in task_state.stateful(task):
        for delta in arrival.states.get(name, ()):
            step.state.apply(delta)
    if task.deduplicator is not None and arrival.deduplicator is not None:
        task.deduplicator.absorb(arrival.deduplicator)
    inbox = own_inbox(task)
    inbox.put_first(
        [
            (inbox.channels[keys.channel_of(keys.way_of(channel), task.index)], batch, now_ns - age_ns)
            for channel, batch, age_ns in arrival.waiting
        ]
    )


def give_away(task: Task, groups: frozenset[int]) -> None:
    """Let go of the states of groups that have moved."""
    for _, step in task_state.stateful(task):
        for key, _ in list(step.state.items(groups)):
            step.state.delete(key)
