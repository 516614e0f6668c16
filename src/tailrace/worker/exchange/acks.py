"""Acknowledging: acks on their way to the ledger of the source they belong to, which may be in this worker.

What a task has sent to the driver (a ``collect`` sink does) is acknowledged only once the driver has it, because until
then it is lost with the worker.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from tailrace.batch import OFFSET_BITS
from tailrace.hot import by_partition, survey

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable

    from tailrace.worker.execution.task import Task
    from tailrace.worker.worker_state import WorkerState

#: Acks that wait for no others.
_ACKS_NOW = 1024


class Acknowledger:
    """The acks of one worker."""

    def __init__(self, worker: WorkerState, partitions: list[list[Any]], placement: list[list[int]]) -> None:
        self._worker = worker
        self._partitions = partitions
        self.find_sources(placement)
        self._gone_ns = 0
        self._pace_ns = worker.program.settings.ack_pace_us * 1000
        self._driver = worker.driver
        self._until_taken: deque[tuple[int, array[int]]] = deque()

    def find_sources(self, placement: list[list[int]]) -> None:
        """Learn where the sources are, now and whenever tasks have moved."""
        #: The slot that hosts the source of each partition.
        self._owner = {row[0]: placement[row[1]][row[2]] for row in self._partitions}
        self._source_of = {partition: source for _, source in self._worker.sources for partition in source.readers}
        #: Tasks of this worker that are the source of what they emit by themselves.
        self._own = {task.own.partition: task for task in self._worker.tasks if task.own is not None}
        sources = self._worker.sources
        self._sole = sources[0][1] if len(sources) == 1 and not self._own else None

    def settled(self, task: Task) -> bool:
        """Whether the driver has all that a task has sent to it."""
        return self._driver.newest_of(task) <= self._driver.taken

    def arrived(self, heads: array[int], now_ns: int) -> None:
        """Enter acks into the ledgers of this worker's sources."""
        source = self._sole
        if source is not None:
            source.latencies.add(source.ledger.acks(heads, now_ns))
            return
        for partition, part in _by_partition(heads):
            found = self._source_of.get(partition)
            if found is not None:
                found.latencies.add(found.ledger.acks(part, now_ns))
            elif partition in self._own:
                self._own_arrived(self._own[partition], part, now_ns)

    def _own_arrived(self, task: Task, heads: array[int], now_ns: int) -> None:
        """Enter acks of what a task emitted by itself; at its end it waits for the last of them."""
        own = task.own
        if own is not None:
            own.ledger.acks(heads, now_ns)
            if task.finished and not len(own.ledger):
                self._worker.enqueue(task)

    def ack(self, task: Task, heads: array[int]) -> None:
        """Acknowledge a task's input; where the task sends to the driver, once that is safe there."""
        driver = self._driver
        if driver.sent > driver.taken and driver.newest_of(task) > driver.taken:
            # Under the newest serial of all, so that the queue stays in order.
            self._until_taken.append((driver.sent, heads))
            return
        self._send(heads)

    def _send(self, heads: array[int]) -> None:
        for partition, part in _by_partition(heads):
            slot = self._owner.get(partition)
            if slot is not None:  # else it hangs on no root
                self._send_to(slot, part)

    def _send_to(self, slot: int, heads: array[int]) -> None:
        if slot == self._worker.slot:
            self.arrived(heads, self._worker.clock.now_ns())
        else:
            self._worker.outgoing.ack(slot, heads)

    def due(self, now_ns: int) -> bool:
        """Whether waiting acks should go now, and if so, note that they do.

        The first after a pause goes at once; those behind it gather, because each message wakes a worker that has
        better things to do, and nobody waits for them but the ledger.
        """
        waiting = self._worker.outgoing.acks_waiting
        if not waiting or (waiting < _ACKS_NOW and now_ns - self._gone_ns < self._pace_ns):
            return False
        self._gone_ns = now_ns
        return True

    def wait_ns(self, now_ns: int) -> int | None:
        """How long waiting acks still gather; None when there are none."""
        return max(0, self._gone_ns + self._pace_ns - now_ns) if self._worker.outgoing.acks_waiting else None

    def taken(self, serial: int) -> None:
        """The driver has everything up to this serial: what waited for that is acknowledged."""
        self._driver.take(serial)
        while self._until_taken and self._until_taken[0][0] <= serial:
            self._send(self._until_taken.popleft()[1])


def _by_partition(heads: array[int]) -> Iterable[tuple[int, array[int]]]:
    """Divide heads by the partition of their roots; often all are of one."""
    low, high, _ = survey(heads)
    if low >> OFFSET_BITS == high >> OFFSET_BITS:
        return ((low >> OFFSET_BITS, heads),)
    return by_partition(heads).items()
