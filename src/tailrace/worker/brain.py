"""The brain of a worker: messages and finished work in, messages and work out. No sockets, no threads, no own clock.

The loop (real or simulated) feeds it and carries out what it says:

    on_control(msg)   what the coordinator said           ->  ``control_out`` holds the answers
    on_message(data)  what another worker sent
    next_work()       the next piece of user code to run  ->  finish(work) brings its results back
    flush()           send what waits; ``send(slot, bytes)`` was passed in and says whether there was room
    wait_us()         how long the loop may sleep
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from tailrace import protocol
from tailrace.batch import OFFSET_BITS, Batch, mix, root_id
from tailrace.routing.fixed import RouteError
from tailrace.transport import codec, wire

from .build import Site, build_tasks
from .errors import OperatorError, operator_error, user_stack
from .outlet import Given, combined
from .post import PostOffice
from .snapshot import take_snapshot
from .task import CloseWork, ReadWork, Task, TickWork, Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.clock import Clock
    from tailrace.receiving.inbox import Channel
    from tailrace.sending.outbox import Outbox
    from tailrace.topology.operators import OperatorSpec, TaskContext

    from .build import Program

_NS_PER_S = 1_000_000_000
_SALT = 0x2545F4914F6CDD1D
_IDLE_US = 100_000
_STUCK_US = 200
_ACKS_NOW = 1024
_REPLAYS_PER_CHECK = 256
_decode_acks = msgspec.msgpack.Decoder(tuple[list[int], list[int], list[int]]).decode


class WorkerBrain:
    """One worker's tasks and mail."""

    def __init__(
        self,
        slot: int,
        attempt: int,
        clock: Clock,
        send: Callable[[int, bytes], bool],
        context_of: Callable[[OperatorSpec, int, int], TaskContext],
    ) -> None:
        self.slot = slot
        self.attempt = attempt
        self.clock = clock
        self.control_out: deque[protocol.FromWorker] = deque()
        self.tasks: list[Task] = []
        self.peers: dict[int, protocol.Peer] = {}
        self.refused_messages = 0
        self.lost_tuples = 0
        self.stopped = False
        self.failed = False
        self._send = send
        self._context_of = context_of
        self._running = False
        self._ready: deque[Task] = deque()
        self._ticking: list[Task] = []
        self._unanchored = 0
        self._dirty: dict[Outbox, None] = {}
        self._next_report_ns = 0
        self._next_replay_ns = 0
        self._oldest_ack_ns = 0
        self._driver_lock = threading.Lock()
        self._driver_sent = self._driver_taken = 0
        self._driver_sent_by: dict[tuple[str, int], int] = {}
        self._acks_until_taken: deque[tuple[int, list[int], list[int], list[int]]] = deque()
        self._turn = 0

    # -- what the coordinator says -------------------------------------------------------------------------------

    def on_control(self, message: protocol.FromCoordinator) -> None:
        """Act on one message of the coordinator."""
        match message:
            case protocol.Deploy():
                self._deploy(message)
            case protocol.Go():
                self._running = True
            case protocol.PeerUp(peer=peer):
                self._peer_up(peer)
            case protocol.Resume(slot=slot):
                self._resume(slot)
            case protocol.Beat(marks=marks):
                self._beat(marks)
            case protocol.Taken(serial=serial):
                self._taken(serial)
            case protocol.Drain():
                for task in self._sources:
                    task.source.draining = True  # type: ignore[union-attr]
            case protocol.Stop():
                self.stopped = True
                if self._running:
                    self.report()
            case _:
                pass

    def _deploy(self, message: protocol.Deploy) -> None:
        self.program: Program = codec.loads(message.program)
        settings = self.program.settings
        self.peers = {peer.slot: peer for peer in message.peers}
        site = Site(
            self.slot, self.attempt, message.placement, message.partitions, self.clock, self._context_of
        )  # fmt: skip
        self.tasks = build_tasks(self.program, site)
        self._sources = [task for task in self.tasks if task.source is not None]
        self._post = PostOffice(
            self.slot, self.attempt, self._send, settings.batch_max, settings.frame_bytes_max
        )  # fmt: skip
        self._inbound = {
            number: (task, channel)
            for task in self.tasks
            if task.inbox is not None
            for number, channel in task.inbox.channels.items()
        }
        self._outbound = {box.channel: box for task in self.tasks for box in task.boxes}
        self._owner = {row[0]: message.placement[row[1]][row[2]] for row in message.partitions}
        self._source_of = {part: task for task in self._sources for part in task.source.readers}  # type: ignore[union-attr]
        for task in self.tasks:
            try:
                task.chain.open()
            except Exception as error:  # noqa: BLE001 - a user's open() may raise anything
                return self.fail(operator_error(task.name, task.index, "open()", error))
            if (every_s := task.chain.tick_every_s) is not None:
                task.next_tick_ns = self.clock.now_ns() + int(every_s * _NS_PER_S)
                self._ticking.append(task)
        self._beat(message.marks)
        self.control_out.append(protocol.Deployed())
        return None

    def _peer_up(self, peer: protocol.Peer) -> None:
        """Refuse the slot's old worker from now on, and begin every channel with it anew."""
        self.peers[peer.slot] = peer
        self._post.hold(peer.slot)
        for box in self._outbound.values():
            if box.slot == peer.slot:
                box.reset()
                self._dirty[box] = None
        for task, channel in self._inbound.values():
            if channel.slot == peer.slot:
                channel.reset()
                channel.ended = channel.ended and task.closed
        self.control_out.append(protocol.PeerSeen(peer.slot, peer.attempt))

    def _resume(self, slot: int) -> None:
        self._post.release(slot)
        for task in self._sources:
            self._replay(task, task.source.ledger.everything())  # type: ignore[union-attr]

    def _beat(self, marks: dict[int, int]) -> None:
        for task in self.tasks:
            if task.guard is not None:
                for partition, offset in marks.items():
                    task.guard.low_water(partition, offset)

    def fail(self, error: BaseException) -> None:
        """Ask the coordinator to end the query; the first reason counts."""
        if not self.failed:
            self.failed = True
            message = getattr(error, "message", f"{type(error).__name__}: {error}\n{user_stack(error)}")
            hint = getattr(error, "hint", "")
            self.control_out.append(protocol.Failure(type(error).__name__, message, hint))

    # -- what other workers send ---------------------------------------------------------------------------------

    def on_message(self, data: bytes | memoryview) -> None:
        """Take in a message of another worker, unless that worker has been replaced."""
        slot, attempt = wire.sender(data)
        peer = self.peers.get(slot)
        if peer is None or peer.attempt != attempt:
            self.refused_messages += 1
            return
        now_ns = self.clock.now_ns()
        for frame in wire.frames(data):
            if frame.kind == wire.DATA:
                self._on_data(frame, now_ns)
            elif frame.kind == wire.ACKS:
                self._on_acks(*_decode_acks(frame.payload), now_ns)
            elif frame.kind == wire.CREDITS:
                box = self._outbound[frame.channel]
                box.consumed = int.from_bytes(frame.payload, "little")
                if box.values:
                    self._dirty[box] = None
            elif frame.kind == wire.END:
                self._on_end(*self._inbound[frame.channel])
            elif frame.kind == wire.RESYNC:
                self._on_resync(self._inbound[frame.channel][1], int.from_bytes(frame.payload, "little"))

    def _on_data(self, frame: wire.Frame, now_ns: int) -> None:
        task, channel = self._inbound[frame.channel]
        self._deliver(task, channel, codec.decode_batch(frame.payload), now_ns)

    def _deliver(self, task: Task, channel: Channel, batch: Batch, now_ns: int) -> None:
        task.inbox.put(channel, batch, now_ns)  # type: ignore[union-attr]
        self._enqueue(task)

    def _on_end(self, task: Task, channel: Channel) -> None:
        channel.ended = True
        self._enqueue(task)

    def on_reconnect(self, slot: int) -> None:
        """A broken connection to a living peer is back: say again what was sent and taken, for some of it was lost."""
        for box in self._outbound.values():
            if box.slot == slot:
                self._post.resync(box)
                if box.end_sent:
                    self._post.end(box)
        for _, channel in self._inbound.values():
            if channel.slot == slot:
                self._credit(channel)

    def _on_resync(self, channel: Channel, sent: int) -> None:
        lost = sent - channel.received
        if lost > 0:
            self.lost_tuples += lost
            channel.received = sent
            channel.consumed += lost
            self._credit(channel)

    def _on_acks(self, roots: list[int], incs: list[int], xors: list[int], now_ns: int) -> None:
        if len(self._sources) == 1:
            source = self._sources[0].source
            source.latencies.add(source.ledger.acks(roots, incs, xors, now_ns))  # type: ignore[union-attr]
            return
        for root, inc, xor in zip(roots, incs, xors, strict=True):
            task = self._source_of.get(root >> OFFSET_BITS)
            if task is not None:
                task.source.latencies.add(task.source.ledger.acks([root], [inc], [xor], now_ns))  # type: ignore[union-attr]

    # -- what is to be done --------------------------------------------------------------------------------------

    def _enqueue(self, task: Task) -> None:
        if not task.queued:
            task.queued = True
            self._ready.append(task)

    def next_work(self) -> Work | None:
        """The next piece of user code to run, sources and other tasks in turn; None when there is nothing to do."""
        if not self._running or self.failed:
            return None
        if self._ticking and (tick := self._tick_work()) is not None:
            return tick
        self._turn ^= 1
        if self._turn:
            return self._task_work() or self._source_work()
        return self._source_work() or self._task_work()

    def _task_work(self) -> Work | None:
        settings = self.program.settings
        for _ in range(len(self._ready)):
            task = self._ready.popleft()
            task.queued = False
            if task.in_flight >= task.pieces_max or task.closed or self._tick_due(task):
                continue  # comes back when a piece of its work does
            inbox = task.inbox
            if inbox:
                if task.held_back(settings.outbox_tuples):
                    self._enqueue(task)
                    continue
                work = self._take(task, task.values_per_turn(settings.slice_us * 1000))
                if inbox or inbox.ended:
                    self._enqueue(task)
                if work is not None:
                    return work
            elif inbox is not None and inbox.ended and not task.in_flight and not task.closing:
                return self._close_work(task)
        return None

    def _take(self, task: Task, values_max: int) -> Work | None:
        """Take a batch from the inbox; duplicates are answered here and never reach the user's code."""
        channel, batch, since_ns = task.inbox.take(values_max)  # type: ignore[union-attr]
        if channel.credit_due:
            self._credit(channel)
        now_ns = self.clock.now_ns()
        task.waited_ns += (now_ns - since_ns) * len(batch)
        keep = task.guard.admit(batch) if task.guard is not None else None
        work = Work(task, batch if keep is None else batch.select(keep))
        work.since_ns = since_ns
        if len(work.batch):
            self._issue(work)
        if keep is not None:
            self._repeat(task, batch.select([not fresh for fresh in keep]))
        return work if len(work.batch) else None

    def _credit(self, channel: Channel) -> None:
        channel.reported = channel.consumed
        if channel.slot == self.slot:
            box = self._outbound[channel.id]
            box.consumed = channel.consumed
            if box.values:
                self._dirty[box] = None
        else:
            self._post.credit(channel.slot, channel.id, channel.consumed)

    def _repeat(self, task: Task, batch: Batch) -> None:
        """Answer duplicates: send again what they gave the first time, under the new incarnation."""
        xors = []
        for root, inc, lineage in zip(batch.roots, batch.incs, batch.lineages, strict=True):
            given = task.guard.recall(lineage)  # type: ignore[union-attr]
            if given is not None:
                xors.append(lineage ^ given.emit_again(given.index_of(lineage), root, inc))
            else:
                # While the first one is being worked on, nothing may be acked that it has yet to do.
                xors.append(0 if task.adopt(lineage, inc) else lineage)
        self._mark_dirty(task)
        self._ack_for(task, batch.roots, batch.incs, xors)

    def _source_work(self) -> Work | None:
        settings = self.program.settings
        for task in self._sources:
            source = task.source
            if source is None or task.closed or task.in_flight:
                continue
            if source.exhausted:
                if not len(source.ledger) and not task.closing:
                    return self._close_work(task)
                continue
            room = settings.max_pending - len(source.ledger)
            if room <= 0 or task.held_back(settings.outbox_tuples):
                continue
            found = source.next_reader()
            if found is not None:
                records_max = min(room, task.values_per_turn(settings.slice_us * 1000))
                return self._issue(ReadWork(task, *found, records_max if task.mode == "inline" else min(room, 64)))
        return None

    def _tick_due(self, task: Task) -> bool:
        return task.next_tick_ns is not None and not task.closing and self.clock.now_ns() >= task.next_tick_ns

    def _tick_work(self) -> Work | None:
        for task in self._ticking:
            if not task.in_flight and self._tick_due(task):
                return self._issue(TickWork(task, self.clock.now_ns() / _NS_PER_S))
        return None

    def _close_work(self, task: Task) -> Work:
        task.closing = True
        return self._issue(CloseWork(task))

    def _issue(self, work: Work) -> Work:
        work.task.in_flight += 1
        work.task.pieces.append(work)
        return work

    # -- what was done -------------------------------------------------------------------------------------------

    def finish(self, work: Work) -> None:
        """Take in the results of a piece of work: route its outputs, acknowledge its input."""
        task = work.task
        task.in_flight -= 1
        task.pieces.remove(work)
        if work.error is not None:
            error = work.error
            if not isinstance(error, OperatorError):
                error = operator_error(task.name, task.index, work.batch.values[:1], error)
            self.fail(error)
            return
        task.account(work)
        try:
            self._route(task, work)
        except RouteError as error:
            self.fail(error)
            return
        except Exception as error:  # noqa: BLE001 - a user's key or grouping function may raise anything
            self.fail(operator_error(task.name, task.index, work.batch.values[:1], error))
            return
        if work.since_ns and self.program.settings.metrics:
            task.latencies.add_many(self.clock.now_ns() - work.since_ns, len(work.batch))
        self._mark_dirty(task)
        if task.inbox is not None and (task.inbox or task.inbox.ended):
            self._enqueue(task)

    def _route(self, task: Task, work: Work) -> None:
        if isinstance(work, ReadWork):
            self._finish_read(task, work)
        elif isinstance(work, TickWork | CloseWork):
            self._emit_unanchored(task, work)
        elif work.batch.lineages:
            self._finish_tracked(task, work)
        else:
            for edge, values, sizes in work.outputs:
                task.outlets[edge].emit(work.batch, values, sizes)

    def _finish_tracked(self, task: Task, work: Work) -> None:
        batch = work.batch
        outputs = [(task.outlets[edge], values, sizes) for edge, values, sizes in work.outputs]
        xors = [outlet.emit(batch, values, sizes) for outlet, values, sizes in outputs]
        if task.guard is not None and outputs:
            task.guard.remember(batch.lineages, Given(batch.lineages, outputs))
        self._ack_for(task, batch.roots, batch.incs, combined([batch.lineages, *xors]))

    def _finish_read(self, task: Task, work: ReadWork) -> None:
        source, values = task.source, work.batch.values
        if source is None or not values:
            return
        source.read += len(values)
        now_ns = self.clock.now_ns()
        tracked = self.program.policy.tracked
        roots = [root_id(work.partition, offset) for offset in work.offsets]
        lineages = [mix(root, _SALT) for root in roots] if tracked else []
        ids = (roots, [source.ledger.base_inc] * len(roots), lineages) if tracked else ([], [], [])
        origin = Batch(values, None, *ids)
        outputs = [(task.outlets[edge], given, sizes) for edge, given, sizes in work.outputs]
        xors = [outlet.emit(origin, given, sizes) for outlet, given, sizes in outputs]
        dues_ns = list(work.dues_ns) if work.dues_ns is not None else [now_ns] * len(values)
        if tracked:
            total = combined(xors) if xors else [0] * len(roots)
            done = source.ledger.emit(roots, total, dues_ns, now_ns, Given(lineages, outputs))
            source.latencies.add(done)
        else:
            source.ledger.pass_by(roots)

    def _emit_unanchored(self, task: Task, work: Work) -> None:
        """Emit what hangs on no root: it is delivered in order, but neither tracked nor sent again."""
        if isinstance(work, TickWork):  # counted from its end, so that a long one leaves time for tuples
            task.next_tick_ns = self.clock.now_ns() + int((task.chain.tick_every_s or 1.0) * _NS_PER_S)
        for edge, values, sizes in work.outputs:
            tracked = self.program.policy.tracked
            self._unanchored += 1
            lineage = mix(self.slot << 48 | self.attempt << 32, self._unanchored)
            ids = ([0], [0], [lineage]) if tracked else ([], [], [])
            task.outlets[edge].emit(Batch(values, sizes, *ids), values, sizes if tracked else None)
        if isinstance(work, CloseWork):
            task.closed = True
            for box in task.boxes:
                box.ended = True
                self._dirty[box] = None
            self.control_out.append(protocol.TaskDone(task.stage.id, task.index))

    def to_driver(self, operator: str, task: int, values: bytes) -> None:
        """Send a sink's values to the driver; the only method here that any thread may call."""
        with self._driver_lock:
            self._driver_sent += 1
            self._driver_sent_by[operator, task] = self._driver_sent
            self.control_out.append(protocol.Collected(operator, task, values, self._driver_sent))

    def _taken(self, serial: int) -> None:
        self._driver_taken = serial
        held = self._acks_until_taken
        while held and held[0][0] <= serial:
            self._ack(*held.popleft()[1:])

    def _ack_for(self, task: Task, roots: list[int], incs: list[int], xors: list[int]) -> None:
        """Acknowledge a task's input; where the task sends to the driver, once that is safe there."""
        if self._driver_sent > self._driver_taken:
            sent = max(self._driver_sent_by.get((spec.name, task.index), 0) for spec in task.stage.operators)
            if sent > self._driver_taken:
                # Under the newest serial of all, so that the queue stays in order.
                self._acks_until_taken.append((self._driver_sent, roots, incs, xors))
                return
        self._ack(roots, incs, xors)

    def _ack(self, roots: list[int], incs: list[int], xors: list[int]) -> None:
        low, high = min(roots) >> OFFSET_BITS, max(roots) >> OFFSET_BITS
        if low == high:
            self._ack_to(self._owner.get(low), roots, incs, xors)
            return
        for root, inc, xor in zip(roots, incs, xors, strict=True):
            self._ack_to(self._owner.get(root >> OFFSET_BITS), [root], [inc], [xor])

    def _ack_to(self, slot: int | None, roots: list[int], incs: list[int], xors: list[int]) -> None:
        if slot is None:
            return  # hangs on no root
        now_ns = self.clock.now_ns()
        if slot == self.slot:
            self._on_acks(roots, incs, xors, now_ns)
            return
        if not self._post.acks_waiting:
            self._oldest_ack_ns = now_ns
        self._post.ack(slot, roots, incs, xors)

    def _mark_dirty(self, task: Task) -> None:
        now_ns = self.clock.now_ns()
        for box in task.boxes:
            if box.values and box not in self._dirty:
                box.since_ns = now_ns
                self._dirty[box] = None

    # -- time and sending ----------------------------------------------------------------------------------------

    def flush(self, *, idle: bool) -> None:
        """Send what is due: all of it when there is nothing else to do, else full and waiting outboxes."""
        if not self._running:
            return
        now_ns = self.clock.now_ns()
        settings = self.program.settings
        limit_ns = settings.flush_us * 1000
        for box in list(self._dirty):
            if idle or box.ended or len(box.values) >= settings.batch_max or now_ns - box.since_ns >= limit_ns:
                self._flush_box(box, now_ns)
        waiting = self._post.acks_waiting
        acks = waiting and (idle or waiting >= _ACKS_NOW or now_ns - self._oldest_ack_ns >= limit_ns)
        self._post.post(acks=bool(acks))

    def _flush_box(self, box: Outbox, now_ns: int) -> None:
        if box.slot == self.slot:
            self._hand_over(box, now_ns)
        elif self._post.accepts(box.slot):
            self._post.data(box)
            if box.ended and not box.values and not box.end_sent:
                self._post.end(box)
        if not box.values and (box.end_sent or not box.ended):
            del self._dirty[box]
        elif box.room <= 0:
            del self._dirty[box]  # a credit brings it back

    def _hand_over(self, box: Outbox, now_ns: int) -> None:
        """Give an outbox's tuples to a task of this worker as they are, without encoding."""
        task, channel = self._inbound[box.channel]
        while box.values and box.room > 0:
            self._deliver(task, channel, box.take(min(box.room, self.program.settings.batch_max)), now_ns)
        if box.ended and not box.values and not box.end_sent:
            box.end_sent = True
            self._on_end(task, channel)

    def on_time(self) -> None:
        """Do what the clock asks for: send overdue roots again, report."""
        if not self._running:
            return
        now_ns = self.clock.now_ns()
        policy = self.program.policy
        if policy.tracked and now_ns >= self._next_replay_ns:
            timeout_ns = int(policy.replay_timeout_s * _NS_PER_S)
            self._next_replay_ns = now_ns + max(timeout_ns // 20, 1_000_000)
            for task in self._sources:
                # Behind a full outbox nothing was lost: sending again would only make it longer.
                held = task.held_back(self.program.settings.outbox_tuples)
                if task.source is not None and task.source.replays_late and not held:
                    self._replay(task, task.source.ledger.overdue(now_ns, timeout_ns, _REPLAYS_PER_CHECK))
        if now_ns >= self._next_report_ns:
            self._next_report_ns = now_ns + int(self.program.settings.progress_s * _NS_PER_S)
            self.report()

    def report(self) -> None:
        """Tell the coordinator how things stand, and the sources what is complete."""
        marks: dict[int, int] = {}
        for task in self._sources:
            source = task.source
            if source is not None:
                low = source.ledger.low_water()
                for partition, offset in low.items():
                    source.readers[partition].commit(offset)
                marks |= low
        snapshot = take_snapshot(self.tasks, self._post, self.program.settings.edges_reported_max)
        snapshot |= {"refused_messages": self.refused_messages, "lost_tuples": self.lost_tuples}
        self.control_out.append(protocol.Report(snapshot, marks))

    def _replay(self, task: Task, roots: list[int]) -> None:
        source = task.source
        if source is None or not roots:
            return
        now_ns = self.clock.now_ns()
        for root in roots:
            inc, given, index = source.ledger.reincarnate(root, now_ns)
            source.ledger.sent_again(root, given.emit_again(index, root, inc))
        self._mark_dirty(task)

    def wait_us(self) -> int:
        """How long nothing will be due, in microseconds, if no message comes."""
        if not self._running:
            return _IDLE_US
        if self._post.stuck:
            return _STUCK_US
        now_ns = self.clock.now_ns()
        settings = self.program.settings
        until_us = _IDLE_US
        for task in self._sources:
            source = task.source
            if source is None or task.closed or source.exhausted or task.in_flight:
                continue
            held = len(source.ledger) >= settings.max_pending or task.held_back(settings.outbox_tuples)
            if not held:
                until_us = min(until_us, max(50, int(source.wait_s() * 1e6)))
        for task in self._ticking:
            if task.next_tick_ns is not None and not task.closing and not task.in_flight:
                until_us = min(until_us, max(0, task.next_tick_ns - now_ns) // 1000)
        return until_us

    def close(self) -> None:
        """Let go of what user code holds open, when the query ends without draining."""
        for task in self.tasks:
            for reader in (task.source.readers if task.source is not None else {}).values():
                reader.close()
