"""The chains of a query's tasks: which objects each is put together from, and what keeps them short.

Owned by ``Checkpoints``, and pure: what workers say of parts comes in, orders to merge come out. A part that tells of
no key leaves its chain with the next one; the parts between the first and the newest of a long chain are merged by the
worker that has the task, and replaced if they are still there then. Decision 040 has the argument.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tailrace import protocol

if TYPE_CHECKING:
    from collections.abc import Container

_log = logging.getLogger("tailrace")
#: Epochs that a merge may take at first: its object is named by an epoch that lies so far ahead.
_AHEAD = 32

TaskId = tuple[int, int]
Run = tuple[int, int, list[str]]


class Chains:
    """The chains of one query."""

    def __init__(self, parts_max: int) -> None:
        self._parts_max = parts_max
        #: Per task its objects, the base first: what is known to be written.
        self.of: dict[TaskId, list[str]] = {}
        #: Per task its newest part, if that tells of no key.
        self._empty: dict[TaskId, str] = {}
        #: Per worker what it was told to merge and has not answered, and the epoch before which it gets no order.
        self._ordered: dict[int, protocol.MergeParts] = {}
        self._not_before: dict[int, int] = {}
        self._ahead = _AHEAD
        #: Per task and merged object the parts that it stands for, as long as a chain may hold it.
        self._stands_for: dict[tuple[TaskId, str], list[str]] = {}
        self.merges = 0

    def written(self, message: protocol.PartWritten) -> None:
        """A part is there, whether its epoch becomes durable or not: the next of these tasks builds on it."""
        for stage, task, is_base, is_empty in message.tasks:
            ident = (stage, task)
            chain = [] if is_base else self.of.get(ident, [])
            if chain and chain[-1] == self._empty.get(ident):
                chain = chain[:-1]  # it was there for what is not by key, which is whole in each part
            self.of[ident] = [*chain, message.name]
            self._empty[ident] = message.name if is_empty else ""

    def go_back(self, chains: dict[TaskId, list[str]]) -> None:
        """Begin again with what is durable; nothing that was ordered before counts."""
        self.of = chains
        self._empty.clear()
        self._ordered.clear()

    # -- merging -------------------------------------------------------------------------------------------------

    def long(self, placement: list[list[int]], slots: Container[int], epoch: int) -> dict[int, list[Run]]:
        """What is to be merged, by worker: all but the first part of a long chain and its newest."""
        found: dict[int, list[Run]] = {}
        for (stage, task), chain in self.of.items():
            slot = placement[stage][task]
            free = slot in slots and slot not in self._ordered and epoch >= self._not_before.get(slot, 0)
            if free and len(chain) > self._parts_max:
                found.setdefault(slot, []).append((stage, task, chain[1:-1]))
        return found

    def order(self, slot: int, attempt: int, execution: int, epoch: int, tasks: list[Run]) -> protocol.MergeParts:
        """Tell a worker to merge these; its object is kept from being retired until that epoch is durable."""
        made = self._ordered[slot] = protocol.MergeParts(attempt, execution, epoch + self._ahead, tasks)
        return made

    def merged(self, slot: int, answer: protocol.PartsMerged, epoch: int) -> None:
        """A worker has merged parts, or could not: put the object in their place wherever they are still there."""
        order = self._ordered.get(slot)
        if order is None or (order.execution, order.epoch) != (answer.execution, answer.ordered):
            return
        del self._ordered[slot]
        if not answer.name:
            self._not_before[slot] = epoch + self._parts_max
        elif order.epoch <= epoch:  # an entry of that epoch may be there without it, and it retired
            self._ahead *= 2
            _log.info("parts that worker %d has merged came too late; the next may take %d epochs", slot, self._ahead)
        else:
            for stage, task, names in order.tasks:
                ident, end = (stage, task), 1 + len(names)
                chain = self.of.get(ident, [])
                if chain[1:end] == names:
                    self.of[ident] = [chain[0], answer.name, *chain[end:]]
                    self._stands_for[ident, answer.name] = names
                    self.merges += 1

    def forget(self, slots: Container[int], durable: Container[str]) -> None:
        """Forget orders of workers that have left, and what merged objects stand for that nothing can hold."""
        self._ordered = {slot: order for slot, order in self._ordered.items() if slot in slots}
        self._stands_for = {
            (ident, name): names
            for (ident, name), names in self._stands_for.items()
            if name in durable or name in self.of.get(ident, [])
        }

    def stand_for(self, tasks: list[Run]) -> list[tuple[int, int, str, list[str]]]:
        """What the merged objects in these chains stand for."""
        return [
            (stage, task, name, self._stands_for[(stage, task), name])
            for stage, task, names in tasks
            for name in names
            if ((stage, task), name) in self._stands_for
        ]
