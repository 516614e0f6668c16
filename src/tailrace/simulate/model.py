"""What is simulated, as plain data: nodes, links, a source, stages, and the policies at each step of a tuple's way.

Scenarios build these, ``engine`` reads them. A node stands for one worker; its tasks work side by side, as tasks that
wait (a timed wait, a remote call) do in the runtime. Where several workers share a machine, ``host`` says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tailrace.acking.adaptive_timeout import TimeoutSettings
from tailrace.sending.gate import GateSettings

from .distributions import Fixed
from .errors import ModelError

if TYPE_CHECKING:
    from .distributions import Distribution

ARRIVALS = ("poisson", "periodic")
GROUPINGS = ("shuffle", "random", "fields", "by_root")
ROUTINGS = ("even", "latency", "shortest_delay", "load_aware", "load_reports")
KEYED_ROUTINGS = ("fields", "partial_key")
INBOXES = ("per_task", "shared")
REPLAYS = ("off", "adaptive", "blind")
LOCALITIES = ("off", "worker", "node")
_ONE, _HUNDRED = Fixed(1), Fixed(100)


@dataclass(frozen=True)
class Phase:
    """From one time to another a node works at a fraction of its speed; 0 is a stall."""

    from_s: float
    to_s: float
    factor: float


@dataclass(frozen=True)
class Stalls:
    """A node stands still at random: gaps and lengths are drawn."""

    gap_ms: Distribution
    length_ms: Distribution


@dataclass(frozen=True)
class NodeModel:
    """A host. Speed 1 does a service time in that time; its uplink may be limited."""

    speed: float = 1.0
    phases: tuple[Phase, ...] = ()
    stalls: Stalls | None = None
    link_bytes_per_s: float | None = None
    #: To a node of another host, to one of the same host, and to another task of this node.
    delay_us: float = 0.0
    near_us: float = 0.0
    own_us: float = 0.0
    #: The machine it is on; left out, it has one of its own.
    host: str = ""


@dataclass(frozen=True)
class SourceModel:
    """Where roots come from: tasks, rate of each, how they arrive; in a phase the rate is that factor of it."""

    tasks: int
    rate_per_s: float
    arrivals: str = "poisson"
    bytes: Distribution = _HUNDRED
    #: Node of each task; left out, tasks are dealt to the nodes in turn.
    nodes: tuple[int, ...] = ()
    phases: tuple[Phase, ...] = ()


@dataclass(frozen=True)
class StageModel:
    """An operator: its tasks, what it reads and how, how long a tuple takes and how many come of it."""

    name: str
    tasks: int
    service_us: Distribution
    inputs: tuple[str, ...] = ("source",)
    grouping: str = "shuffle"
    #: Tuples out per tuple in, for each stage that reads this one.
    fan_out: Distribution = _ONE
    bytes: Distribution = _HUNDRED
    #: Keys of the tuples it gives, for stages behind it that are grouped by fields.
    keys: Distribution | None = None
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Policies:
    """One arm of a comparison; names as in ``tailrace.Policy``, with the simulator's own baselines besides."""

    routing: str = "even"
    keyed: str = "fields"
    sending: str = "fifo"
    inbox: str = "per_task"
    replay: str = "off"
    #: Whether an even shuffle keeps near: ``off``, in the own ``worker``, or there and else on its ``node`` (a host).
    locality: str = "off"
    auto: bool = False
    gate: GateSettings = field(default_factory=GateSettings)
    timeout: TimeoutSettings = field(default_factory=TimeoutSettings)
    #: Share of roots that ``blind`` replication sends twice.
    blind_share: float = 0.0
    #: Balancers' periods, report intervals and so on are divided by this in quick runs.
    haste: float = 1.0
    #: How often queue lengths reach the senders under ``load_reports``.
    report_s: float = 1.0
    #: How often senders learn which of their tuples are finished.
    credit_s: float = 0.002
    #: How often a source looks for overdue roots.
    check_s: float = 0.001

    def __post_init__(self) -> None:
        for name, known in (
            ("routing", ROUTINGS), ("keyed", KEYED_ROUTINGS), ("inbox", INBOXES), ("replay", REPLAYS),
            ("locality", LOCALITIES),
        ):  # fmt: skip
            if getattr(self, name) not in known:
                raise ModelError(
                    f"Simulated {name} must be one of {', '.join(known)}; found {getattr(self, name)!r}.",
                    "Change the arm of the scenario.",
                )


@dataclass(frozen=True)
class Model:
    """A topology on nodes."""

    nodes: tuple[NodeModel, ...]
    source: SourceModel
    stages: tuple[StageModel, ...]
    #: Outboxes of a limited uplink: one per sending ``task``, or one per task and ``destination``.
    outbox_per: str = "task"

    def __post_init__(self) -> None:
        known = {"source"}
        for stage in self.stages:
            if stage.grouping not in GROUPINGS or not set(stage.inputs) <= known:
                raise ModelError(
                    f"Stage {stage.name!r} reads {', '.join(stage.inputs)} by {stage.grouping}; expected stages drawn "
                    f"before it and one of {', '.join(GROUPINGS)}.",
                    "Order the stages from the source on.",
                )
            known.add(stage.name)
        if self.source.arrivals not in ARRIVALS:
            raise ModelError(
                f"Arrivals are {' or '.join(ARRIVALS)}; found {self.source.arrivals!r}.", "Change the source."
            )

    @property
    def hosts(self) -> tuple[str, ...]:
        """The host of each node."""
        return tuple(node.host or f"of node {number}" for number, node in enumerate(self.nodes))

    def place(self, nodes: tuple[int, ...], tasks: int) -> tuple[int, ...]:
        """The node of each task: as given, else in turn."""
        return nodes or tuple(task % len(self.nodes) for task in range(tasks))
