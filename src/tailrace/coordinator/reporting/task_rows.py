"""The newest row of every task, also while tasks move and workers are lost. Part of ``progress``; pure.

A task that moves takes its counters along, so for a moment two workers have a row of it. Which of them counts is told
by the rows themselves and by where the task is placed, not by which report came last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tailrace.reports import TaskReport

    #: Per stage, per task: the slot.
    Placement = Sequence[Sequence[int]]


class PlacedRow(NamedTuple):
    """A task's row and the slot whose worker has reported it."""

    slot: int
    row: TaskReport


class TaskRows:
    """The rows of one query, per task and slot."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int], dict[int, TaskReport]] = {}

    def take(self, slot: int, rows: Iterable[TaskReport]) -> None:
        """Let a worker's newest rows stand for those before; a task it no longer has keeps its last row."""
        for row in rows:
            self._rows.setdefault((row.stage, row.task), {})[slot] = row

    def forget(self, slot: int, placement: Placement) -> list[TaskReport]:
        """A worker was lost, or let go: gives the last rows of the tasks that were lost with it."""
        lost = []
        for (stage, task), rows in list(self._rows.items()):
            if placement[stage][task] == slot:  # whoever has reported it last
                lost.append(self._latest(rows, slot).row)
                del self._rows[stage, task]
            elif slot in rows and len(rows) > 1:  # else it stands until the worker that has the task now has reported
                del rows[slot]
        return lost

    def forget_all(self, placement: Placement) -> list[TaskReport]:
        """Everyone begins again: gives the last row of each task."""
        lost = [placed.row for placed in self.present(placement)]
        self._rows.clear()
        return lost

    def present(self, placement: Placement) -> list[PlacedRow]:
        """One row of each task, by slot; rows that a later one has overtaken are dropped."""
        found = []
        for (stage, task), rows in self._rows.items():
            latest = self._latest(rows, placement[stage][task])
            if len(rows) > 1:
                self._rows[stage, task] = {latest.slot: latest.row}
            found.append(latest)
        return sorted(found, key=lambda each: (each.slot, each.row.stage, each.row.task))

    @staticmethod
    def _latest(rows: dict[int, TaskReport], placed: int) -> PlacedRow:
        """The row that is ahead; of two that are level, that of the worker where the task is placed."""
        if len(rows) == 1:
            ((slot, row),) = rows.items()
            return PlacedRow(slot, row)
        slot = max(rows, key=lambda each: (rows[each].advance, each == placed, each))
        return PlacedRow(slot, rows[slot])
