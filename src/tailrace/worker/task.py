"""One task of a stage in a worker, and the pieces of work it hands to the loop.

A piece of work is user code over one batch: ``run`` may be called in any thread and touches nothing of the brain; what
it gave is taken in by the brain when the loop brings the piece back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from tailrace.batch import Batch
from tailrace.metrics.histogram import Histogram

if TYPE_CHECKING:
    from tailrace.acking.dedup import Guard
    from tailrace.acking.ledger import Ledger
    from tailrace.connect.base import Reader
    from tailrace.receiving.inbox import Inbox
    from tailrace.topology.plan import Stage

    from .chain import Chain, Outputs
    from .outlet import Outlet

Mode = Literal["inline", "thread", "async"]

#: Pieces of work a task with a thread of its own may have waiting there.
THREAD_PIECES_MAX = 8
#: How much shorter than in the loop a turn in a thread is.
THREAD_SLICES = 8
VALUES_PER_TURN_MAX = 1024
CPU_SAMPLED_EVERY = 16
_COST_WEIGHT = 0.2


class Task:
    """The state of one task that the brain keeps."""

    def __init__(self, stage: Stage, index: int, chain: Chain, outlets: dict[int, Outlet]) -> None:
        self.stage = stage
        self.index = index
        self.chain = chain
        self.outlets = outlets
        self.boxes = [box for outlet in outlets.values() for box in outlet.boxes]
        self.inbox: Inbox | None = None
        self.guard: Guard | None = None
        self.source: SourceSide | None = None
        self.mode: Mode = "async" if stage.is_async else "thread" if stage.head.blocking else "inline"
        self.in_flight = 0
        self.pieces: list[Work] = []
        self.queued = False
        self.closing = False
        self.closed = False
        self.next_tick_ns: int | None = None
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

    @property
    def name(self) -> str:
        """The stage's name: its operators in order."""
        return "+".join(spec.name for spec in self.stage.operators)

    @property
    def pieces_max(self) -> int:
        """How many pieces of work may be out at once."""
        if self.mode == "async":
            return self.stage.head.concurrency
        return THREAD_PIECES_MAX if self.mode == "thread" else 1

    def values_per_turn(self, slice_ns: int) -> int:
        """How many values one turn should take, from one upwards as their cost becomes known.

        In a thread of its own a task takes fewer, because what it gives waits for the end of the turn.
        """
        if self.mode == "async":
            return 1
        aim_ns = slice_ns if self.mode == "inline" else slice_ns // THREAD_SLICES
        self._turn_values = max(1, min(VALUES_PER_TURN_MAX, 2 * self._turn_values, int(aim_ns / self._cost_ns)))
        return self._turn_values

    def account(self, work: Work) -> None:
        """Learn what a value costs."""
        values = len(work.batch)
        self.tuples_in += values
        self.busy_ns += work.took_ns
        if work.sampled:
            self._sampled_ns += work.cpu_ns
            self._sampled_tuples += values
        if values:
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

    def adopt(self, lineage: int, inc: int) -> bool:
        """Let a bundle that is being worked on answer for the newest incarnation of its root; false if it is not."""
        for piece in self.pieces:
            if lineage in piece.batch.lineages:
                incs, at = piece.batch.incs, piece.batch.lineages.index(lineage)
                incs[at] = max(incs[at], inc)
                return True
        return False

    def held_back(self, tuples_max: int) -> bool:
        """Whether an outbox behind the task is full."""
        return any(len(box.values) >= tuples_max for box in self.boxes)


class SourceSide:
    """What a task at a source has besides: its partitions, the ledger and the latencies of completed roots."""

    def __init__(self, readers: dict[int, Reader], ledger: Ledger) -> None:
        self.readers = readers
        self.ledger = ledger
        self.latencies = Histogram()
        self.read = 0
        self.draining = False
        #: Whether roots are sent again for being late; those of a lost worker always are.
        self.replays_late = True
        self._turn = 0

    @property
    def exhausted(self) -> bool:
        """Whether no more is to be read."""
        return self.draining or all(reader.finished for reader in self.readers.values())

    def next_reader(self) -> tuple[int, Reader] | None:
        """The next partition in turn that may have something now."""
        partitions = list(self.readers)
        for step in range(len(partitions)):
            partition = partitions[(self._turn + step) % len(partitions)]
            reader = self.readers[partition]
            if not reader.finished and reader.wait_s() <= 0:
                self._turn = (self._turn + step + 1) % len(partitions)
                return partition, reader
        return None

    def wait_s(self) -> float:
        """How long until some partition may have something."""
        return min((reader.wait_s() for reader in self.readers.values() if not reader.finished), default=1.0)


class Work:
    """A batch to be run through a task's operators."""

    def __init__(self, task: Task, batch: Batch) -> None:
        self.task = task
        self.batch = batch
        self.outputs: Outputs = []
        self.error: BaseException | None = None
        self.took_ns = 0
        self.cpu_ns = 0
        self.sampled = False
        self.since_ns = 0

    def run(self) -> None:
        """Run the user's code."""
        self.outputs = self.task.chain.run(self.batch.values, self.batch.sizes)

    async def run_async(self) -> None:
        """Await the user's code."""
        self.outputs = await self.task.chain.run_async(self.batch.values, self.batch.sizes)


class ReadWork(Work):
    """Records to be read from a partition and run through the operators chained to the source."""

    def __init__(self, task: Task, partition: int, reader: Reader, records_max: int) -> None:
        super().__init__(task, Batch([], None, [], [], []))
        self.partition = partition
        self.offsets: Any = ()
        self.dues_ns: Any = None
        self._reader = reader
        self._records_max = records_max

    def run(self) -> None:
        """Read, then run the user's code."""
        self.offsets, self.batch.values, self.dues_ns = self._reader.read(self._records_max)
        if self.batch.values:
            super().run()


class TickWork(Work):
    """A tick of the task's operators; what they give hangs on no root."""

    def __init__(self, task: Task, now_s: float) -> None:
        super().__init__(task, Batch([], None, [], [], []))
        self._now_s = now_s

    def run(self) -> None:
        """Tick."""
        self.outputs = self.task.chain.tick(self._now_s)


class CloseWork(Work):
    """The end of a task's operators; what they give hangs on no root."""

    def __init__(self, task: Task) -> None:
        super().__init__(task, Batch([], None, [], [], []))

    def run(self) -> None:
        """Close."""
        self.outputs = self.task.chain.close()
