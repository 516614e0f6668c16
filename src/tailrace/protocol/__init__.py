"""What coordinator and workers tell each other over the control connection, as typed messages.

Both brains take and give these; the loops carry them as msgpack. Nothing in here is pickled except what a user wrote
(the plan inside ``Deploy``, values of a ``collect`` sink), and that only after the peer has proved the secret.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tailrace.protocol.checkpoints import (
    AskMarks,
    Committed,
    Cut,
    CutFailed,
    CutMarks,
    CutPrepared,
    Durability,
    EpochDurable,
    Follow,
    Followed,
    HoldInput,
    InputDrained,
    MergeParts,
    PartsMerged,
    PartWritten,
    PrepareCut,
    ReleaseInput,
)
from tailrace.protocol.operations import (
    Cleared,
    GoOn,
    Held,
    HoldSources,
    Installed,
    Leave,
    OperationFailed,
    Pause,
    PauseKeys,
    Regroup,
    Relocate,
    Switch,
    Switched,
    Undo,
)
from tailrace.protocol.places import KeyTable, Peer
from tailrace.protocol.state_reads import AskState, StateValues
from tailrace.reports import StuckCall, WorkerReport  # noqa: TC001 - msgspec reads the types of fields

__all__ = [
    "AskAvailable",
    "AskMarks",
    "AskState",
    "Available",
    "Beat",
    "Cleared",
    "Collected",
    "Committed",
    "Cut",
    "CutFailed",
    "CutMarks",
    "CutPrepared",
    "Deploy",
    "Deployed",
    "Drain",
    "Durability",
    "EpochDurable",
    "Failure",
    "Follow",
    "Followed",
    "FromCoordinator",
    "FromWorker",
    "Go",
    "GoOn",
    "Held",
    "HoldInput",
    "HoldSources",
    "InputDrained",
    "Installed",
    "KeyTable",
    "Leave",
    "LogLine",
    "Marks",
    "MergeParts",
    "OperationFailed",
    "PartWritten",
    "PartsMerged",
    "Pause",
    "PauseKeys",
    "Peer",
    "PeerSeen",
    "PeerUp",
    "PrepareCut",
    "Refresh",
    "Refused",
    "Register",
    "Regroup",
    "ReleaseInput",
    "Relocate",
    "Report",
    "Resume",
    "StateValues",
    "Stop",
    "Stuck",
    "Switch",
    "Switched",
    "Taken",
    "TaskDone",
    "Undo",
    "Weights",
    "Welcome",
    "decode_from_coordinator",
    "decode_from_worker",
    "encode",
]


class Register(msgspec.Struct, tag=True):
    """Worker: here I am, in this slot."""

    slot: int
    launch: int  #: grows with every start that Spark makes for the slot
    pid: int
    executor: str
    peer: Peer
    version: str
    python: str


class Welcome(msgspec.Struct, tag=True):
    """Coordinator: the slot is yours under this attempt number."""

    attempt: int


class Refused(msgspec.Struct, tag=True):
    """Coordinator: go away, and why."""

    reason: str


class Deploy(msgspec.Struct, tag=True):
    """Coordinator: run these tasks. ``program`` is the pickled plan, policy and settings."""

    query: str
    program: bytes
    placement: list[list[int]]  #: per stage, per task: the slot
    peers: list[Peer]
    partitions: list[list[Any]]  #: number, stage, task, name and start offset of every source partition
    marks: dict[int, int]
    #: Per stage, per task: node and slot at the first placement, for rules that keep near; empty where none does.
    origins: list[list[tuple[int, int]]] = []
    #: Per stage that shares its queue across workers: the slot of each task's queue.
    queues: dict[int, list[int]] = {}
    #: Per stage whose key groups have moved: who has them now.
    tables: dict[int, KeyTable] = {}
    #: None where the query has no checkpoints.
    durability: Durability | None = None


class Deployed(msgspec.Struct, tag=True):
    """Worker: my tasks are open."""

    #: How many go on from a cut, by where their state came from: ``memory``, ``standby`` or ``store``.
    restored: dict[str, int] = {}
    #: Which deployment of the query this is, where it has checkpoints.
    execution: int = 0


class Go(msgspec.Struct, tag=True):
    """Coordinator: everyone is open, read and send."""


class PeerUp(msgspec.Struct, tag=True):
    """Coordinator: the slot has a new worker; refuse the old one, begin its channels again."""

    peer: Peer


class PeerSeen(msgspec.Struct, tag=True):
    """Worker: I refuse the old one."""

    slot: int
    attempt: int


class Resume(msgspec.Struct, tag=True):
    """Coordinator: the slot's new worker is open; send to it, and where one was lost, every open root again."""

    slot: int
    lost: bool = True


class Beat(msgspec.Struct, tag=True):
    """Coordinator: your lease goes on; below these offsets everything is complete."""

    marks: dict[int, int]


class Report(msgspec.Struct, tag=True, frozen=True):
    """Worker: once a second, what it has done and how its queues stand."""

    report: WorkerReport
    marks: dict[int, int]


class Marks(msgspec.Struct, tag=True, frozen=True):
    """Worker: below these offsets everything is complete; between reports, for sources that someone waits for."""

    marks: dict[int, int]


class TaskDone(msgspec.Struct, tag=True):
    """Worker: a task has seen the end of all its input and is closed."""

    stage: int
    task: int


class Failure(msgspec.Struct, tag=True):
    """Worker: the query must end, and why."""

    kind: str
    message: str
    hint: str


class Stuck(msgspec.Struct, tag=True, frozen=True):
    """Worker: this user code has not come back, none when all is well; of several messages the last sent holds."""

    sequence: int
    calls: tuple[StuckCall, ...]


class LogLine(msgspec.Struct, tag=True):
    """Worker: a user's operator logged something."""

    level: int
    operator: str
    task: int
    text: str


class Collected(msgspec.Struct, tag=True):
    """Worker: values of a ``collect`` sink, pickled; ``serial`` counts the worker's messages of this kind."""

    operator: str
    task: int
    values: bytes
    serial: int = 0
    #: Counts the messages of this operator and task since the query began; a recovery takes it up at its cut.
    number: int = 0


class Taken(msgspec.Struct, tag=True):
    """Coordinator: values up to this serial are safe at the driver; what they came of may be acknowledged."""

    serial: int


class Weights(msgspec.Struct, tag=True):
    """Coordinator: this is how the edge's tasks share its traffic, or how fast they are, as its routing rule has it."""

    edge: int
    weights: list[float]


class Refresh(msgspec.Struct, tag=True):
    """Coordinator: a lookup table has new rows, pickled."""

    lookup: str
    version: int
    table: bytes


class AskAvailable(msgspec.Struct, tag=True):
    """Coordinator: how far must each partition be read to have read what is there now? Asked again under its serial."""

    serial: int


class Available(msgspec.Struct, tag=True):
    """Worker: these partitions had nothing more, and this is the next offset of each."""

    serial: int
    offsets: dict[int, int]


class Drain(msgspec.Struct, tag=True):
    """Coordinator: read nothing more, finish what is open."""


class Stop(msgspec.Struct, tag=True):
    """Coordinator: end now."""


FromWorker = (
    Register | Deployed | PeerSeen | Report | Marks | TaskDone | Failure | Stuck | LogLine | Collected
    | Cleared | Installed | OperationFailed | Switched | Held | Available
    | CutMarks | CutPrepared | PartWritten | CutFailed | InputDrained | Followed | StateValues | Committed
    | PartsMerged
)  # fmt: skip
FromCoordinator = (
    Welcome | Refused | Deploy | Go | PeerUp | Resume | Beat | Taken | Weights | Switch | Refresh | Drain | Stop
    | Pause | Relocate | GoOn | Undo | Leave | HoldSources | Regroup | PauseKeys | AskAvailable
    | AskMarks | PrepareCut | Cut | EpochDurable | HoldInput | ReleaseInput | Follow | AskState
    | MergeParts
)  # fmt: skip

encode = msgspec.msgpack.Encoder().encode
decode_from_worker = msgspec.msgpack.Decoder(FromWorker).decode
decode_from_coordinator = msgspec.msgpack.Decoder(FromCoordinator).decode
