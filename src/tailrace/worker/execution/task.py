"""One task of a stage in a worker, and the pieces of work it hands to the loop.

A piece of work is user code over one batch: ``run`` may be called in any thread and touches nothing of the brain; what
it gave is taken in by the brain when the loop brings the piece back.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Literal

from tailrace.batch import HEAD_PLACES, Batch, numbers, root_id
from tailrace.metrics.histogram import Histogram
from tailrace.worker.snapshots.transit import TaskCounters

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.acking.dedup import Deduplicator
    from tailrace.acking.ledger import Ledger
    from tailrace.acking.replay import Replays
    from tailrace.clock import Clock
    from tailrace.receiving.inbox import Arrival, Inbox
    from tailrace.receiving.shared_inbox import SharedInbox
    from tailrace.topology.contracts import Reader
    from tailrace.topology.plan import Stage
    from tailrace.worker.exchange.outlet import Outlet, Output
    from tailrace.worker.exchange.shared_queues import Group
    from tailrace.worker.execution.chain import Chain, Outputs
    from tailrace.worker.execution.own_roots import OwnRoots

Mode = Literal["inline", "thread", "async"]

#: How much shorter than in the loop a turn in a thread is; so many turns may be with the thread at once.
THREAD_SLICES = 8
#: Turns that are with a thread at least, where each takes long: one that runs and the next.
THREAD_PIECES_MIN = 2
VALUES_PER_TURN_MAX = 1024
CPU_SAMPLED_EVERY = 16
_COST_WEIGHT = 0.2
_NS_PER_S = 1_000_000_000


class Task:
    """The state of one task that the brain keeps."""

    def __init__(self, stage: Stage, index: int, chain: Chain, outlets: dict[int, Outlet]) -> None:
        self.stage = stage
        self.index = index
        self.chain = chain
        self.outlets = outlets
        self.boxes = [box for outlet in outlets.values() for box in outlet.boxes]
        self.inbox: Inbox | SharedInbox | None = None
        #: Those that take from the same inbox; None where this task has its own.
        self.group: Group | None = None
        self.deduplicator: Deduplicator | None = None
        self.source: SourceSide | None = None
        #: What it emits by itself, where the query has checkpoints.
        self.own: OwnRoots | None = None
        self.mode: Mode = "async" if stage.is_async else "thread" if stage.head.blocking else "inline"
        self.in_flight = 0
        self.pieces: list[Work] = []
        self.queued = False
        #: Its end was begun; its operators are closed; what they gave at the end is complete and it has said so.
        self.closing = False
        self.finished = False
        self.closed = False
        #: Whether its state is to be read when its work is back; until then it gets no more.
        self.is_read = False
        #: Whether the deployment it belongs to is no more.
        self.dropped = False
        #: Epochs that its sinks have prepared and not published yet, oldest first, and what makes the newest durable.
        self.prepared: list[int] = []
        self.syncs: list[Callable[[], object]] = []
        #: The newest epoch that is durable, and whether a piece of work that publishes is out.
        self.durable_epoch = 0
        self.committing = False
        self.next_tick_ns: int | None = None
        #: Whether its last turn was a tick.
        self.ticked = False
        self.tuples_in = 0
        self.busy_ns = 0
        self._pieces_issued = 0
        self._sampled_ns = 0
        self._sampled_tuples = 0
        self.waited_ns = 0
        #: Time from arrival in the inbox to the end of the work on it, per tuple.
        self.latencies = Histogram()
        self._cost_ns = 1000.0
        self._turn_values = 1
        #: Whether a turn has come back since turns last became longer.
        self._measured = False
        self._thread_pieces = THREAD_PIECES_MIN

    @property
    def name(self) -> str:
        """The stage's name: its operators in order."""
        return "+".join(spec.name for spec in self.stage.operators)

    @property
    def commits_due(self) -> bool:
        """Whether its sinks are to publish an epoch."""
        return bool(self.prepared) and self.prepared[0] <= self.durable_epoch and not self.committing

    @property
    def has_more(self) -> bool:
        """Whether it has something to do beside its source and ticks."""
        return (self.inbox is not None and self.inbox.has_more) or self.commits_due

    @property
    def pieces_max(self) -> int:
        """How many pieces of work may be out at once."""
        if self.is_read:
            return 0
        if self.mode == "async":
            return self.stage.head.concurrency
        # What waits in front of a busy thread is out of its members' reach.
        return self._thread_pieces if self.mode == "thread" and self.group is None else 1

    def values_per_turn(self, slice_ns: int) -> int:
        """How many values one turn should take, from one upwards as their cost becomes known.

        In a thread of its own a task takes fewer, because what it gives waits for the end of the turn. Where even one
        value takes longer than such a turn, fewer turns are with the thread: they could not be taken back for a move.
        """
        if self.mode == "async":
            return 1
        aim_ns = slice_ns if self.mode == "inline" else slice_ns // THREAD_SLICES
        affordable_pieces = int(slice_ns / self._cost_ns) if self.tuples_in else 0  # nothing is known of its cost yet
        self._thread_pieces = min(THREAD_SLICES, max(THREAD_PIECES_MIN, affordable_pieces))
        affordable = int(aim_ns / self._cost_ns)
        if self._turn_values < affordable and self._turn_values < VALUES_PER_TURN_MAX:
            if self._measured:  # several turns may be out at once: a longer one only by what a shorter one took
                self._turn_values *= 2
                self._measured = False
        elif self._turn_values > affordable:
            self._turn_values = affordable or 1
        return self._turn_values

    def account(self, work: Work) -> None:
        """Learn what a value costs."""
        values = len(work.batch.values)
        self.tuples_in += values
        self.busy_ns += work.took_ns
        if work.sampled:
            self._sampled_ns += work.cpu_ns
            self._sampled_tuples += values
        if values:
            self._measured = True
            self._cost_ns += _COST_WEIGHT * (work.took_ns / values - self._cost_ns)

    def issue(self, work: Work) -> Work:
        """Give a piece of work out; the processor time of one in so many is measured, because asking for it is dear."""
        work.sampled = self._pieces_issued % CPU_SAMPLED_EVERY == 0
        self._pieces_issued += 1
        self.in_flight += 1
        self.pieces.append(work)
        return work

    @property
    def cpu_ns(self) -> int:
        """Processor time of all tuples, from what the measured ones took."""
        return self._sampled_ns * self.tuples_in // max(1, self._sampled_tuples)

    def counters(self) -> TaskCounters:
        """What it has counted, and what it knows of its cost."""
        return TaskCounters(
            self.tuples_in, self.busy_ns, self.waited_ns,
            self._sampled_ns, self._sampled_tuples, self._cost_ns, self._turn_values,
        )  # fmt: skip

    def count_on(self, counters: TaskCounters) -> None:
        """Go on from what the same task has counted elsewhere."""
        self.tuples_in, self.busy_ns, self.waited_ns = counters.tuples_in, counters.busy_ns, counters.waited_ns
        self._sampled_ns, self._sampled_tuples = counters.sampled_ns, counters.sampled_tuples
        self._cost_ns, self._turn_values = counters.cost_ns, counters.turn_values

    def adopt(self, lineage: int, inc: int) -> bool:
        """Let a bundle that is being worked on answer for the newest incarnation of its root; false if it is not."""
        for piece in self.pieces:
            lineages = piece.batch.lineages
            if lineage in lineages:
                at = lineages.index(lineage) * HEAD_PLACES + 1
                piece.batch.heads[at] = max(piece.batch.heads[at], inc)
                return True
        return False

    def outputs_of(self, work: Work) -> list[Output]:
        """What a piece of work gave, with the way out of each part."""
        return [(self.outlets[edge], values, sizes) for edge, values, sizes in work.outputs]

    def held_back(self, tuples_max: int, bytes_max: int) -> bool:
        """Whether an outbox behind the task is full, or all of them together have too many bytes."""
        waiting_bytes = 0
        for box in self.boxes:
            if box.values:
                if len(box.values) >= tuples_max:
                    return True
                waiting_bytes += box.bytes
        return waiting_bytes >= bytes_max


class SourceSide:
    """What a task at a source has besides: its partitions, the ledger and the latencies of completed roots."""

    def __init__(self, readers: dict[int, Reader], ledger: Ledger) -> None:
        self.readers = readers
        self.ledger = ledger
        self.latencies = Histogram()
        self.read = 0
        self.draining = False
        #: Whether nothing is read because the task is being moved.
        self.paused = False
        #: Whether nothing but what is owed is read, because the query is drained for a savepoint.
        self.held = False
        #: Which roots are sent again for being late; those of a lost worker always are.
        self.replays: Replays | None = None
        #: What the records read last gave, in bytes for each.
        self.record_bytes = 0
        #: When some partition may have something, as found when none had.
        self.ready_ns = 0
        #: Per partition how far it must be read, come what may: other tasks have effects of these roots in their cuts.
        self.owed: dict[int, int] = {}
        #: Partitions of which a read gave nothing since somebody asked.
        self.dry: set[int] = set()
        self._turns = deque(readers.items())

    @property
    def exhausted(self) -> bool:
        """Whether no more is to be read."""
        if self.draining:
            return not self.owed
        for reader in self.readers.values():  # noqa: SIM110 - asked in every round; all() takes twice as long
            if not reader.finished:
                return False
        return True

    def next_reader(self, clock: Clock) -> tuple[int, Reader] | None:
        """The next partition in turn that may have something now; if there is none, notes when there may be."""
        least_s = 1.0
        for _ in range(len(self._turns)):
            partition, reader = self._turns[0]
            self._turns.rotate(-1)
            if not reader.finished and not ((self.draining or self.held) and partition not in self.owed):
                wait_s = reader.wait_s()
                if wait_s <= 0:
                    return partition, reader
                least_s = min(least_s, wait_s)
        self.ready_ns = clock.now_ns() + int(least_s * _NS_PER_S)
        return None

    def wait_s(self) -> float:
        """How long until some partition may have something."""
        return min([reader.wait_s() for reader in self.readers.values() if not reader.finished], default=1.0)


class Work:
    """A batch to be run through a task's operators."""

    __slots__ = (
        "arrivals", "awaited", "batch", "begun_ns", "cpu_ns", "error", "outputs", "sampled", "task", "took_ns",
    )  # fmt: skip

    def __init__(self, task: Task, batch: Batch) -> None:
        self.task = task
        self.batch = batch
        self.outputs: Outputs = []
        self.error: BaseException | None = None
        #: When it was begun, by ``perf_counter_ns``; 0 while it waits for its thread.
        self.begun_ns = 0
        #: What an ``async def`` operator waits in.
        self.awaited: Any = None
        #: 0 until it has come back.
        self.took_ns = 0
        self.cpu_ns = 0
        self.sampled = False
        #: From whom the batch came, how many values from each, and when.
        self.arrivals: list[Arrival] = []

    def run(self) -> None:
        """Run the user's code."""
        chain = self.task.chain
        chain.origins = self.batch.lineages or None if chain.wants_origins else None
        self.outputs = self.task.chain.run(self.batch.values, self.batch.sizes)

    async def run_async(self) -> None:
        """Await the user's code."""
        self.outputs = await self.task.chain.run_async(self.batch.values, self.batch.sizes, self)


class ReadWork(Work):
    """Records to be read from a partition and run through the operators chained to the source."""

    __slots__ = ("_reader", "_records_max", "dues_ns", "offsets", "partition")

    def __init__(self, task: Task, partition: int, reader: Reader, records_max: int) -> None:
        super().__init__(task, Batch([], None, numbers()))
        self.partition = partition
        self.offsets: Any = ()
        self.dues_ns: Any = None
        self._reader = reader
        self._records_max = records_max

    def run(self) -> None:
        """Read, then run the user's code."""
        self.task.chain.at.operator = self.task.stage.head.name
        self.offsets, self.batch.values, self.dues_ns = self._reader.read(self._records_max)
        if self.batch.values:
            chain = self.task.chain
            chain.origins = (
                [root_id(self.partition, offset) for offset in self.offsets] if chain.wants_origins else None
            )
            self.outputs = chain.run(self.batch.values, None)


class TickWork(Work):
    """A tick of the task's operators; what they give hangs on no root."""

    __slots__ = ("_now_s",)

    def __init__(self, task: Task, now_s: float) -> None:
        super().__init__(task, Batch([], None, numbers()))
        self._now_s = now_s

    def run(self) -> None:
        """Tick."""
        self.task.chain.origins = None
        self.outputs = self.task.chain.tick(self._now_s)


class CloseWork(Work):
    """The end of a task's operators; what they give hangs on no root."""

    __slots__ = ()

    def __init__(self, task: Task) -> None:
        super().__init__(task, Batch([], None, numbers()))

    def run(self) -> None:
        """Close."""
        self.task.chain.origins = None
        self.outputs = self.task.chain.close()


class CommitWork(Work):
    """Epochs that are durable, to be published by a task's sinks."""

    __slots__ = ("epochs",)

    def __init__(self, task: Task, epochs: list[int]) -> None:
        super().__init__(task, Batch([], None, numbers()))
        self.epochs = epochs

    def run(self) -> None:
        """Publish."""
        self.task.chain.commit(self.epochs)
