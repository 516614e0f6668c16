"""What goes with key groups from one task to another: their state, what waits for them, and what the guard remembers.

Called by ``key_mover`` at both ends. ``KeyGroups`` knows the group of every tuple and of every key that has state;
touches nothing but the task it is given. Times travel as ages: two workers share no clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tailrace.batch import HEAD_PLACES, Batch, numbers
from tailrace.routing.fields import CACHED_KEYS_MAX, even_groups, group_of
from tailrace.transport import codec
from tailrace.worker.build import channel_bases
from tailrace.worker.exchange.outlet import EmittedOutputs

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.receiving.inbox import Channel, Inbox
    from tailrace.worker.build import Program
    from tailrace.worker.execution.task import Task

Waiting = tuple["Channel", Batch, int]


class _Known(dict[Any, int]):
    """Key to group, filled in as keys are met."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count

    def __missing__(self, key: Any) -> int:
        if len(self) >= CACHED_KEYS_MAX:
            self.clear()
        found = self[key] = group_of(key, self._count)
        return found


class KeyGroups:
    """The key groups of one stage, as a worker meets them."""

    def __init__(self, program: Program, stage: int) -> None:
        self._stage = program.plan.stages[stage]
        self._edges = program.plan.inputs[stage]
        self._bases = channel_bases(program.plan)
        self._group = _Known(len(even_groups(self._stage.tasks, program.settings.key_groups)))
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

    def of(self, states: dict[Any, Any], groups: frozenset[int]) -> dict[Any, Any]:
        """The states of the keys of some groups."""
        return {key: state for key, state in states.items() if self._group[key] in groups}

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


def pack(task: Task, keys: KeyGroups, groups: frozenset[int], waiting: list[Waiting], now_ns: int) -> bytes:
    """Describe what goes with some groups from a task that stands still; it stays as it is, in case of an undo."""
    return codec.dumps({
        "states": {
            name: keys.of(step.states, groups)
            for name, step in task.chain.steps.items()
            if hasattr(step, "states")
        },
        "inbox": [
            (keys.way_of(channel.id), batch.values, batch.sizes, batch.heads, now_ns - since_ns)
            for channel, batch, since_ns in waiting
        ],
        "guard": task.deduplicator,
    })  # fmt: skip


def take_in(task: Task, keys: KeyGroups, parcel: dict[str, Any], now_ns: int) -> None:
    """Let a task have what came with some groups; what waited for them comes before all that has come since."""
    for name, states in parcel["states"].items():
        task.chain.steps[name].states.update(states)  # type: ignore[attr-defined]
    if task.deduplicator is not None and parcel["guard"] is not None:
        for given in parcel["guard"].remembered():
            if isinstance(given, EmittedOutputs):
                given.bind(task.outlets)
        task.deduplicator.absorb(parcel["guard"])
    inbox = own_inbox(task)
    inbox.put_first(
        [
            (inbox.channels[keys.channel_of(way, task.index)], Batch(values, sizes, heads), now_ns - age_ns)
            for way, values, sizes, heads, age_ns in parcel["inbox"]
        ]
    )


def give_away(task: Task, keys: KeyGroups, groups: frozenset[int]) -> None:
    """Let go of the states of groups that have moved."""
    for step in task.chain.steps.values():
        if (states := getattr(step, "states", None)) is not None:
            for key in keys.of(states, groups):
                del states[key]
