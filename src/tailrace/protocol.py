"""What coordinator and workers tell each other over the control connection, as typed messages.

Both brains take and give these; the loops carry them as msgpack. Nothing in here is pickled except what a user wrote
(the plan inside ``Deploy``, values of a ``collect`` sink), and that only after the peer has proved the secret.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Peer(msgspec.Struct, frozen=True):
    """How to reach the worker that has a slot now."""

    slot: int
    attempt: int
    host: str
    tcp: tuple[str, int]
    uds: str = ""
    ring: str = ""
    probe_path: str = ""
    probe_nonce: str = ""
    why_no_ring: str = ""
    #: The name of the worker's node where that is not its host.
    node: str = ""
    #: The board of its gate, where the uplink is limited.
    board: str = ""

    @property
    def node_name(self) -> str:
        """What placement and progress call its node."""
        return self.node or self.host


class KeyTable(msgspec.Struct, frozen=True):
    """Which task of a stage has which key groups, and how bundles are cut; see ``routing.key_table``.

    A group's *part* below the number of tasks is the task itself; the parts from there on are sets of groups that are
    cut off by themselves, and ``extra`` names the task that has each. ``before`` and ``before_extra`` are the cut of
    roots below the offsets of ``since``, per partition, as long as such roots may be open. ``floors`` are the first
    incarnations of sources that had to be restarted: an older one of a root from ``since`` on was cut the old way.
    """

    parts: list[int]
    extra: list[int] = []
    before: list[int] = []
    before_extra: list[int] = []
    since: dict[int, int] = {}
    floors: dict[int, int] = {}


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
    homes: list[list[tuple[int, int]]] = []
    #: Per stage that shares its queue across workers: the slot of each task's queue.
    queues: dict[int, list[int]] = {}
    #: Per stage whose key groups have moved: who has them now.
    tables: dict[int, KeyTable] = {}


class Deployed(msgspec.Struct, tag=True):
    """Worker: my tasks are open."""


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


class Report(msgspec.Struct, tag=True):
    """Worker: once a second, what it has done and how its queues stand."""

    snapshot: dict[str, Any]
    marks: dict[int, int]


class Marks(msgspec.Struct, tag=True):
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


class Stuck(msgspec.Struct, tag=True):
    """Worker: this user code has not come back; operator, task, seconds and stack of each, none when all is well."""

    rows: list[dict[str, Any]]


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


class Taken(msgspec.Struct, tag=True):
    """Coordinator: values up to this serial are safe at the driver; what they came of may be acknowledged."""

    serial: int


class Weights(msgspec.Struct, tag=True):
    """Coordinator: this is how the edge's tasks share its traffic, or how fast they are, as its routing rule has it."""

    edge: int
    weights: list[float]


class Switch(msgspec.Struct, tag=True):
    """Coordinator: from now on these policies; of several messages the one with the highest epoch holds."""

    epoch: int
    routing: str
    inbox: str
    replay: str


class Refresh(msgspec.Struct, tag=True):
    """Coordinator: a lookup table has new rows, pickled."""

    lookup: str
    version: int
    table: bytes


class Pause(msgspec.Struct, tag=True):
    """Coordinator: these tasks move; each row has stage, task, the old slot and the new one."""

    epoch: int
    moves: list[list[int]]


class HoldSources(msgspec.Struct, tag=True):
    """Coordinator: read nothing for a moment, and say how far you have read.

    Where a source had to be restarted, its predecessor may have read further: then the tasks of the stage stand still
    too, and what they have let through counts as read.
    """

    epoch: int
    stage: int
    restarted: bool = False


class Held(msgspec.Struct, tag=True):
    """Worker: I read nothing; the next offset of each partition, and the first incarnation of its source."""

    epoch: int
    offsets: dict[int, int]
    incs: dict[int, int] = {}


class Regroup(msgspec.Struct, tag=True):
    """Coordinator: from now on the stage's key groups go by this table."""

    epoch: int
    stage: int
    table: KeyTable


class PauseKeys(msgspec.Struct, tag=True):
    """Coordinator: key groups of this stage move; each row has the old task, the new one and the groups."""

    epoch: int
    stage: int
    moves: list[tuple[int, int, list[int]]]


class Cleared(msgspec.Struct, tag=True):
    """Worker: a task that leaves is on its way, and all it sent from here has arrived.

    Where key groups move, ``task`` in this message and in ``Installed`` is the row of ``PauseKeys``.
    """

    epoch: int
    stage: int
    task: int


class Installed(msgspec.Struct, tag=True):
    """Worker: a task that comes is open here and waits."""

    epoch: int
    stage: int
    task: int


class MoveFailed(msgspec.Struct, tag=True):
    """Worker: the plan cannot be carried out, and why."""

    epoch: int
    message: str
    hint: str


class Relocate(msgspec.Struct, tag=True):
    """Coordinator: all tasks of the plan are at their new places; send to those."""

    epoch: int


class Relocated(msgspec.Struct, tag=True):
    """Worker: I do."""

    epoch: int


class GoOn(msgspec.Struct, tag=True):
    """Coordinator: everyone does; sources that moved may read."""

    epoch: int


class Undo(msgspec.Struct, tag=True):
    """Coordinator: the plan is given up; go on with all tasks at their old places."""

    epoch: int


class Leave(msgspec.Struct, tag=True):
    """Coordinator: a worker has no tasks any more and leaves; to itself, that it may end."""

    slot: int


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
    | Cleared | Installed | MoveFailed | Relocated | Held | Available
)  # fmt: skip
FromCoordinator = (
    Welcome | Refused | Deploy | Go | PeerUp | Resume | Beat | Taken | Weights | Switch | Refresh | Drain | Stop
    | Pause | Relocate | GoOn | Undo | Leave | HoldSources | Regroup | PauseKeys | AskAvailable
)  # fmt: skip

encode = msgspec.msgpack.Encoder().encode
decode_from_worker = msgspec.msgpack.Decoder(FromWorker).decode
decode_from_coordinator = msgspec.msgpack.Decoder(FromCoordinator).decode
