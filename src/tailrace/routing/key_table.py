"""Which task has which key groups, when groups move between tasks, and how that is kept from replays.

A bundle is named by the way it was cut: what one input gave to one destination. A replay is known again only if it is
cut as its root was at first, so the *cut* (which groups stay together) may not change while the root is open. Groups
move in two steps therefore. First they are cut off by themselves, without going anywhere, for roots from some offset of
each partition on; older roots, replays of theirs included, are cut as before. Then, once all older roots are complete,
the part that was cut off goes to its new task as it is. The cut of a root hangs on nothing but the root and the table.

Pure: called by the coordinator to make tables and by workers to route by them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.batch import OFFSET_BITS, OFFSET_MAX
from tailrace.hot import survey
from tailrace.protocol import KeyTable

from .fields import Fields, even_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tailrace.batch import Batch

    from .base import Router


def first_table(tasks: int, key_groups: int) -> KeyTable:
    """Every group where it is before any has moved."""
    return KeyTable(even_groups(tasks, key_groups))


def tasks_of(table: KeyTable, tasks: int) -> list[int]:
    """The task that has each group."""
    return [part if part < tasks else table.extra[part - tasks] for part in table.parts]


def cut(
    table: KeyTable, tasks: int, moves: Mapping[int, int], since: Mapping[int, int], floors: Mapping[int, int]
) -> KeyTable:
    """Cut off the groups that are to move, those with the same old and new task together; all stay where they are.

    ``moves`` gives the new task of each group, ``since`` the offset of each partition from which the new cut holds,
    ``floors`` the first incarnation of sources that were restarted. What was cut off before and has arrived is joined
    with its task again, so that parts do not become ever more.
    """
    present = tasks_of(table, tasks)
    pairs = sorted({(present[group], new) for group, new in moves.items()})
    number = {pair: tasks + at for at, pair in enumerate(pairs)}
    parts = [number[task, moves[group]] if group in moves else task for group, task in enumerate(present)]
    return KeyTable(parts, [old for old, _ in pairs], list(table.parts), list(table.extra), dict(since), dict(floors))


def moved(table: KeyTable, tasks: int, moves: Mapping[int, int]) -> KeyTable:
    """The parts that were cut off for these moves, at their new tasks; older roots are complete."""
    extra = list(table.extra)
    for group, new in moves.items():
        extra[table.parts[group] - tasks] = new
    return KeyTable(list(table.parts), extra, floors=table.floors)


def moved_uncut(table: KeyTable, tasks: int, moves: Mapping[int, int]) -> KeyTable:
    """The groups at their new tasks where nothing is tracked: nothing is sent again, so no cut has to be kept."""
    return KeyTable([moves.get(group, task) for group, task in enumerate(tasks_of(table, tasks))])


def ripe(table: KeyTable, marks: Mapping[int, int]) -> bool:
    """Whether all roots that are cut the old way are complete."""
    return all(marks.get(partition, 0) >= offset for partition, offset in table.since.items())


def floors_of(table: KeyTable) -> dict[int, tuple[int, int]]:
    """What guards have to know of sources that were restarted: from which offset on which incarnations are too old."""
    return {partition: (table.since.get(partition, 0), inc) for partition, inc in table.floors.items()}


def ways_beyond(table: KeyTable, tasks: int) -> list[int]:
    """The tasks of all destinations beyond the tasks themselves, as a rule for this table numbers them.

    Where there are two cuts, all of the new one stand behind all of the old one: what a batch gives to a task is filed
    in the order of its destinations, and a key that changes its part must not overtake itself.
    """
    return [*table.before_extra, *range(tasks), *table.extra] if table.since else table.extra


def rule_for(table: KeyTable, key: Callable[[Any], Any] | None, tasks: int) -> Router:
    """The rule by which a sender goes under a table; ``key`` is None when values are the keys themselves."""
    if not table.since:
        return Fields(key, tasks, len(table.parts), table.parts)
    shift = tasks + len(table.before_extra)
    old = Fields(key, tasks, len(table.before), table.before)
    new = Fields(key, tasks, len(table.parts), [part + shift for part in table.parts])
    return ByAge(old, new, table.since)


class ByAge:
    """Two cuts of the same keys, one for roots below some offset of their partition and one for the others."""

    several = False
    unwraps = False

    def __init__(self, old: Fields, new: Fields, since: Mapping[int, int]) -> None:
        self._old = old
        self._new = new
        self._since = since

    def choose(self, values: list[Any], origin: Batch) -> list[int]:
        """Look every key's task up in the table that its root is cut by."""
        low, high, _ = survey(origin.heads)
        one = low >> OFFSET_BITS == high >> OFFSET_BITS
        if not origin.heads or (one and not self._is_old(low)):
            return self._new.choose(values, origin)
        old, new = self._old.choose(values, origin), self._new.choose(values, origin)
        ages = [self._is_old(root) for root in origin.roots]
        if origin.sizes is not None:
            ages = [age for age, size in zip(ages, origin.sizes, strict=True) for _ in range(size)]
        return [before if age else after for before, after, age in zip(old, new, ages, strict=True)]

    def _is_old(self, root: int) -> bool:
        return (root & OFFSET_MAX) < self._since.get(root >> OFFSET_BITS, 0)
