"""What a worker reports of itself, as immutable rows: made once a second, sent in ``protocol.Report``.

``worker.reports`` makes them; the coordinator adds them up for progress, balancing and placement. Counters are totals
since the worker started and a newer report's stand for an older one's; latencies and key groups count what has come
since the report before, and are added. So it makes no difference in which order reports are handled.

The rows travel as arrays: thousands of them arrive at the coordinator in a second.
"""

from __future__ import annotations

import msgspec

#: Stands for sender and receiver in a row that adds up the task pairs without a row of their own.
REST = -1


class LatencyReport(msgspec.Struct, frozen=True, array_like=True):
    """A histogram on its way: counts per bucket, the largest value and the sum, in nanoseconds."""

    counts: dict[int, int]
    most: int
    total: int


class TaskReport(msgspec.Struct, frozen=True, array_like=True):
    """One task: counters, which move with it to another worker; then how its queues stand, and latencies."""

    stage: int
    task: int
    mode: str
    tuples_in: int = 0
    tuples_out: int = 0
    busy_ns: int = 0
    cpu_ns: int = 0
    waited_ns: int = 0
    skipped: int = 0
    dead_letters: int = 0
    duplicates: int = 0
    read: int = 0
    completed: int = 0
    replays: int = 0
    inbox: int = 0
    inbox_most: int = 0
    outbox: int = 0
    outbox_bytes: int = 0
    #: Open roots of a source.
    pending: int = 0
    pending_bytes: int = 0
    #: From the time a tuple was due until this task was done with it; of tasks that have an inbox.
    latency: LatencyReport | None = None
    #: From the time a record was due until all that came of it was done; of sources.
    complete: LatencyReport | None = None
    #: After how long a source sends a root again, where it does.
    timeout_ns: int | None = None
    #: What waits for a limited uplink, and the most that did since the report before; None where nothing has to.
    uplink: int | None = None
    uplink_most: int = 0

    @property
    def key(self) -> tuple[int, int]:
        """Stage and task: which task of the query this is."""
        return self.stage, self.task

    @property
    def advance(self) -> tuple[int, int, int, int]:
        """Grows with all a task does, at whichever worker: of two rows for one task the larger is the later."""
        return self.tuples_in, self.read, self.tuples_out, self.busy_ns


class EdgeReport(msgspec.Struct, frozen=True, array_like=True):
    """What one task has sent to another by an edge of the plan; bytes are 0 within a worker."""

    edge: int
    sender: int
    receiver: int
    tuples: int
    bytes: int


class LinkReport(msgspec.Struct, frozen=True, array_like=True):
    """What was sent by an edge over one kind of link: within the worker, within the node, between nodes."""

    edge: int
    kind: int
    tuples: int
    bytes: int


class KeyGroupReport(msgspec.Struct, frozen=True, array_like=True):
    """How many tuples of a key group were counted on an edge since the report before."""

    edge: int
    group: int
    tuples: int


class ProcessReport(msgspec.Struct, frozen=True, array_like=True):
    """The worker as a whole; the machine's load is that of all its processes, 0 where nobody measures it."""

    machine_load: float = 0.0
    refused_messages: int = 0
    lost_tuples: int = 0


class WorkerReport(msgspec.Struct, frozen=True, array_like=True):
    """One report. ``sequence`` counts those of one attempt of a worker, from 1."""

    sequence: int
    tasks: tuple[TaskReport, ...] = ()
    edges: tuple[EdgeReport, ...] = ()
    links: tuple[LinkReport, ...] = ()
    groups: tuple[KeyGroupReport, ...] = ()
    sent_bytes: int = 0
    sent_messages: int = 0
    process: ProcessReport = ProcessReport()


class StuckCall(msgspec.Struct, frozen=True):
    """User code that has not come back: whose, since when, and where it is."""

    operator: str
    task: int
    seconds: float
    stack: str
