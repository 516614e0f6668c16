"""Acknowledging: acks on their way to the ledger of the source they belong to, which may be in this worker.

What a task has sent to the driver (a ``collect`` sink does) is acknowledged only once the driver has it, because until
then it is lost with the worker.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from tailrace import protocol
from tailrace.batch import OFFSET_BITS

if TYPE_CHECKING:
    from .floor import Floor
    from .task import Task

Acks = tuple[list[int], list[int], list[int]]


class Acknowledger:
    """The acks of one worker."""

    def __init__(self, floor: Floor, partitions: list[list[Any]], placement: list[list[int]]) -> None:
        self._floor = floor
        #: The slot that hosts the source of each partition.
        self._owner = {row[0]: placement[row[1]][row[2]] for row in partitions}
        self._source_of = {partition: source for _, source in floor.sources for partition in source.readers}
        self._oldest_ns = 0
        self._lock = threading.Lock()
        self._sent = self._taken = 0
        self._sent_by: dict[tuple[str, int], int] = {}
        self._until_taken: deque[tuple[int, Acks]] = deque()

    def arrived(self, roots: list[int], incs: list[int], xors: list[int], now_ns: int) -> None:
        """Enter acks into the ledgers of this worker's sources."""
        sources = self._floor.sources
        if len(sources) == 1:
            source = sources[0][1]
            source.latencies.add(source.ledger.acks(roots, incs, xors, now_ns))
            return
        for root, inc, xor in zip(roots, incs, xors, strict=True):
            found = self._source_of.get(root >> OFFSET_BITS)
            if found is not None:
                found.latencies.add(found.ledger.acks([root], [inc], [xor], now_ns))

    def ack(self, task: Task, roots: list[int], incs: list[int], xors: list[int]) -> None:
        """Acknowledge a task's input; where the task sends to the driver, once that is safe there."""
        if self._sent > self._taken:
            sent = max(self._sent_by.get((spec.name, task.index), 0) for spec in task.stage.operators)
            if sent > self._taken:
                # Under the newest serial of all, so that the queue stays in order.
                self._until_taken.append((self._sent, (roots, incs, xors)))
                return
        self._send(roots, incs, xors)

    def _send(self, roots: list[int], incs: list[int], xors: list[int]) -> None:
        low, high = min(roots) >> OFFSET_BITS, max(roots) >> OFFSET_BITS
        if low == high:
            self._send_to(self._owner.get(low), roots, incs, xors)
            return
        for root, inc, xor in zip(roots, incs, xors, strict=True):
            self._send_to(self._owner.get(root >> OFFSET_BITS), [root], [inc], [xor])

    def _send_to(self, slot: int | None, roots: list[int], incs: list[int], xors: list[int]) -> None:
        if slot is None:
            return  # hangs on no root
        now_ns = self._floor.clock.now_ns()
        if slot == self._floor.slot:
            self.arrived(roots, incs, xors, now_ns)
            return
        if not self._floor.post.acks_waiting:
            self._oldest_ns = now_ns
        self._floor.post.ack(slot, roots, incs, xors)

    def due(self, now_ns: int, *, idle: bool, limit_ns: int, limit: int) -> bool:
        """Whether waiting acks should go now."""
        waiting = self._floor.post.acks_waiting
        return bool(waiting) and (idle or waiting >= limit or now_ns - self._oldest_ns >= limit_ns)

    def to_driver(self, operator: str, task: int, values: bytes) -> None:
        """Send a sink's values to the driver; any thread may call it."""
        with self._lock:
            self._sent += 1
            self._sent_by[operator, task] = self._sent
            self._floor.control_out.append(protocol.Collected(operator, task, values, self._sent))

    def taken(self, serial: int) -> None:
        """The driver has everything up to this serial: what waited for that is acknowledged."""
        self._taken = serial
        while self._until_taken and self._until_taken[0][0] <= serial:
            self._send(*self._until_taken.popleft()[1])
