"""A worker's side of its node's limited uplink: queues in front of it, turns taken in the table, the link's own clock.

``delivery`` hands over the outboxes whose destinations are on other nodes; ``send`` sends of them what the gate grants
and the link carries by then, and leaves the rest for another round of the loop. Made by the brain only where a limited
link is set; acks, credits, control records and tuples within the node never come here.

The link is a clock in shared memory: a tuple takes bytes / rate from when the link was free and the tuple was there. So
workers that come late make up for it, up to ``gate_max_wait_ms``, and an idle link saves nothing up.
"""

from __future__ import annotations

import logging
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

from tailrace.sending.gate import Entry, GateSettings
from tailrace.sending.registry import gate_by_name
from tailrace.worker.uplink.queue import Queue
from tailrace.worker.uplink.shared_memory import UplinkTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tailrace.config import Settings
    from tailrace.protocol import Peer
    from tailrace.sending.outbox import Outbox
    from tailrace.worker.execution.task import Task
    from tailrace.worker.uplink.queue import Head
    from tailrace.worker.worker_state import WorkerState

_NS_PER_S = 1_000_000_000
_NS_PER_MS = 1_000_000
#: How often a worker with something to send looks at the table at most.
_LOOK_NS = 250_000
#: A worker that has been at the table for so long does not run.
_STOPPED_NS = 1_000_000_000


class Meets(Protocol):
    """Tells which workers stand behind the same uplink."""

    def meet(self, peers: Iterable[Peer]) -> tuple[frozenset[int], UplinkTable]:
        """Find the slots of this node and the table they share."""
        ...


def gate_settings(settings: Settings) -> GateSettings:
    """What the gates go by."""
    return GateSettings(
        tau_ns=int(settings.gate_tau_ms * _NS_PER_MS),
        quantum=settings.gate_quantum,
        max_wait_ns=int(settings.gate_max_wait_ms * _NS_PER_MS),
    )


def open_uplink(worker: WorkerState, node_peers: Meets | None, peers: Mapping[int, Peer]) -> Uplink | None:
    """Make the uplink of a worker, if it is limited."""
    if node_peers is None or not worker.program.settings.link_bytes_per_s:
        return None
    return Uplink(worker, node_peers, peers)


class Uplink:
    """What a worker sends off its node, at the pace of the link and in the order of the gate."""

    def __init__(self, worker: WorkerState, node_peers: Meets, peers: Mapping[int, Peer]) -> None:
        settings = worker.program.settings
        self._worker = worker
        self._node_peers = node_peers
        self._settings = gate_settings(settings)
        self._gate = gate_by_name(worker.program.policy.sending, self._settings)
        self._batch_max = settings.batch_max
        self._ns_per_byte = _NS_PER_S / settings.link_bytes_per_s
        tasks = [stage.tasks for stage in worker.program.plan.stages]
        self._bases = list(accumulate(tasks, initial=0))
        self._queues: dict[int, Queue] = {}
        self._queue_of: dict[Outbox, Queue] = {}
        #: When to look again; None when nothing here waits for the link.
        self._next_ns: int | None = None
        self._shut_out_ns: int | None = None
        self._near, self._table = node_peers.meet(peers.values())

    def meet(self, peers: Mapping[int, Peer]) -> None:
        """A worker was replaced: see again who stands on this node."""
        near, self._table = self._node_peers.meet(peers.values())
        self._next_ns = self._shut_out_ns = None
        if near != self._near:
            self._near = near
            self.restart()

    def restart(self) -> None:
        """Tasks move: let go of all queues; outboxes that may still send come back with the next flush."""
        for queue in self._queues.values():
            self._worker.dirty.update(dict.fromkeys(queue.boxes))
        self._queues.clear()
        self._queue_of.clear()
        self._next_ns = None

    # -- in ------------------------------------------------------------------------------------------------------

    def takes(self, box: Outbox, now_ns: int) -> bool:
        """Let an outbox wait for the link, if its tuples have to go by it."""
        if not box.values or box.slot in self._near:
            return False
        queue = self._queue_of.get(box)
        if queue is None:
            queue = self._enter(box)
        queue.file(box, now_ns)
        return True

    def _enter(self, box: Outbox) -> Queue:
        task = self._worker.task_of(box)
        number = self._number(task)
        queue = self._queues.get(number)
        if queue is None:
            queue = self._queues[number] = Queue(number, task)
        self._queue_of[box] = queue
        return queue

    def _number(self, task: Task) -> int:
        """The number of a task in the whole topology."""
        return self._bases[task.stage.id] + task.index

    # -- out -----------------------------------------------------------------------------------------------------

    def send(self, now_ns: int) -> None:
        """Hand to the outgoing what is this worker's turn to send by now."""
        if self._next_ns is not None and now_ns < self._next_ns:
            return
        self._next_ns = None
        waiting = [queue for queue in self._queues.values() if queue.tuples]
        if not waiting:
            self._shut_out_ns = None
            return
        if not self._table.lock():
            self._shut_out(now_ns)
            return
        try:
            self._shut_out_ns = None
            for queue in waiting:
                if queue.changed or now_ns >= queue.due_ns or self._table.granted(queue.number):
                    self._send_granted(queue, now_ns)
            free_ns = self._grant(now_ns)
            for queue in waiting:
                if self._table.granted(queue.number):
                    self._send_granted(queue, now_ns)
        finally:
            self._table.unlock()
        if any(queue.shown_tuples for queue in waiting):  # the rest waits for its receivers, not for the link
            self._next_ns = max(now_ns + _LOOK_NS, min(free_ns, now_ns + self._settings.tau_ns))

    def wait_ns(self, now_ns: int) -> int | None:
        """How long until the table is to be looked at; None when nothing waits for the link."""
        return None if self._next_ns is None else max(0, self._next_ns - now_ns)

    def _grant(self, now_ns: int) -> int:
        """Grant what the link could have carried by now, to whomever it belongs; gives when the link is free again.

        Whoever looks first grants for all, and each worker sends its own when it looks next: the link loses no time to
        turns that pass from one process to another.
        """
        table = self._table
        free_ns, turn = table.turn()
        if free_ns > now_ns:
            return free_ns
        left, waiting = turn.tuples_max, table.entries()
        # Since then the link could not have been idle, had its workers looked in time.
        busy_ns = min([entry.since_ns for entry in waiting.values()], default=now_ns)
        begin_ns = max(free_ns, busy_ns, now_ns - self._settings.max_wait_ns)
        waiting = {number: _aged(entry) for number, entry in waiting.items()}
        while free_ns <= now_ns:
            entry = waiting.get(turn.outbox)
            if entry is None or left <= 0 or now_ns >= turn.until_ns:
                found = self._gate.decide(list(waiting.values()), turn.cursor, now_ns)
                if found is None:
                    break
                turn, left = found, found.tuples_max
                continue
            each_ns = int(entry.bytes / entry.tuples * self._ns_per_byte) + 1
            tuples = min(left, entry.tuples, (now_ns - begin_ns) // each_ns + 1)
            table.grant(entry.outbox, tuples)
            begin_ns = free_ns = begin_ns + tuples * each_ns
            left -= tuples
            if tuples < entry.tuples:
                waiting[entry.outbox] = _aged(_without(entry, tuples))
            else:
                del waiting[entry.outbox]
        table.set_turn(free_ns, turn, left)
        return free_ns

    def _send_granted(self, queue: Queue, now_ns: int) -> None:
        """Send what a queue was granted, oldest first, and enter in the table what is left."""
        worker, granted = self._worker, self._table.granted(queue.number)
        heads = queue.heads(worker.outgoing)
        unpaid_bytes = -granted * queue.shown_bytes
        while granted > 0 and heads:
            head = min(heads.values(), key=_order)
            box, before = head.box, head.box.sent_total
            size = worker.outgoing.some(box, min(granted, head.tuples, box.room, self._batch_max))
            tuples = box.sent_total - before
            granted -= tuples
            unpaid_bytes += size
            queue.took(box, tuples, size)
            if box.ended and not box.values:
                worker.dirty[box] = None  # its end of stream may follow
            if (following := queue.head(box, worker.outgoing)) is not None:
                heads[box] = following
            else:
                del heads[box]
        if unpaid_bytes:  # sizes differ, bundles go whole, a grant may find its receiver full
            self._table.delay(int(unpaid_bytes * self._ns_per_byte))
        since_ns = min([head.since_ns for head in heads.values()], default=now_ns)
        first = sum([head.tuples for head in heads.values() if head.since_ns == since_ns])
        tuples, each = queue.show(heads)
        queue.due_ns = now_ns + self._settings.tau_ns // 2
        self._table.show(
            Entry(queue.number, queue.operator, -1, tuples, tuples * each, since_ns, now_ns, queue.alone, first)
        )

    def _shut_out(self, now_ns: int) -> None:
        """Another worker is at the table: come back soon; if it was stopped there, go on without the others."""
        self._next_ns = now_ns + _LOOK_NS
        if self._shut_out_ns is None:
            self._shut_out_ns = now_ns
        elif now_ns - self._shut_out_ns > _STOPPED_NS:
            logging.getLogger("tailrace.worker").warning("worker %d: the gate's table is held up", self._worker.slot)
            self._table = UplinkTable.in_memory()

    # -- told ----------------------------------------------------------------------------------------------------

    def queue_of_task(self, task: Task) -> Queue | None:
        """What a task has waiting for the link, if it has ever had any."""
        return self._queues.get(self._number(task))


def _without(entry: Entry, tuples: int) -> Entry:
    """What a queue has waiting beyond some more of its tuples."""
    left = entry.tuples - tuples
    return entry._replace(tuples=left, bytes=entry.bytes // entry.tuples * left, first=max(0, entry.first - tuples))


def _aged(entry: Entry) -> Entry:
    """How old a queue counts as once its oldest tuples may go: what is behind them, only its own worker knows."""
    return entry if entry.first else entry._replace(first=1, since_ns=entry.refreshed_ns)


def _order(head: Head) -> tuple[int, int]:
    """Oldest first; of what came together the most, so that one receiver does not wait for another's share."""
    return head.since_ns, -head.tuples
