"""Every default and every bound of the runtime, in one typed place.

``Policy`` names the mechanism used at each step of a tuple's way; ``Settings`` holds sizes, intervals and limits.
Both are plain frozen data, checked when they are made, so that a wrong value is found before Spark starts.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from .errors import ConfigError, nearest

T = TypeVar("T")

#: The policies this release carries, by the step they decide.
KNOWN_POLICIES: dict[str, tuple[str, ...]] = {
    "placement": ("round_robin", "stromax", "turbostream", "metis", "auto", "by_operator"),
    "sending": ("fifo", "round_robin", "lbf"),
    "inbox": ("per_task", "shared", "auto"),
    "routing": ("even", "random", "latency", "load_aware", "shortest_delay", "partial_key", "stamped", "auto"),
    "locality": ("off", "worker", "node"),
    "replay": ("off", "fixed", "adaptive", "blind", "auto"),
    "rebalance": ("off", "spread", "stromax", "turbostream", "auto"),
    "chaining": ("on", "off"),
}

#: Routing policies under which a key has two tasks.
TWO_CHOICES = frozenset({"partial_key", "stamped"})

#: The steps that can be left to the coordinator while a query runs: what it may choose, where it begins first.
SWITCHED_STEPS: dict[str, tuple[str, ...]] = {
    "routing": ("even", "shortest_delay", "load_aware"),
    "inbox": ("per_task", "shared"),
    "replay": ("fixed:30s", "adaptive"),
}

#: Policies that may say more after a colon.
_DETAILED = {("replay", "fixed"), ("replay", "blind"), ("inbox", "shared")}


@dataclass(frozen=True)
class Policy:
    """Which mechanism decides at each step; every one has its baseline beside it.

    ``auto`` at routing, inbox or replay leaves that step to the coordinator, which chooses and switches at run time.
    """

    placement: str = "round_robin"
    #: Which task of a node may use its limited uplink next (``Settings.link_bytes_per_s``).
    sending: str = "fifo"
    #: ``per_task``, ``shared`` (where that can be), or ``shared:NAME,...`` for the operators named and no others.
    inbox: str = "per_task"
    routing: str = "even"
    #: Whether shuffled tuples keep near, as far as no task gets much more than its share: ``off``, in their ``worker``,
    #: or there and else on their ``node``. A balancing ``routing`` goes before it.
    locality: str = "off"
    #: ``off`` (nothing is tracked, nothing replayed), ``fixed:SECONDS`` or ``adaptive`` (what is late goes again).
    replay: str = "fixed:30s"
    chaining: str = "on"
    #: Who moves tasks while the query runs; ``query.rebalance()`` can be called under each of them.
    rebalance: str = "off"

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            name, known = getattr(self, field.name), KNOWN_POLICIES[field.name]
            kind, _, detail = str(name).partition(":")
            if name not in known and not (detail and (field.name, kind) in _DETAILED):
                raise ConfigError(
                    f"Policy {field.name} must be one of {', '.join(known)}; found {name!r}.",
                    nearest(str(name), known),
                )
        if self.tracked:
            _ = self.replay_timeout_s, self.replay_share

    @classmethod
    def auto(cls, **given: str) -> Policy:
        """Leave routing, inbox and replay to the coordinator, but for what is given."""
        return from_mapping(cls, dict.fromkeys(SWITCHED_STEPS, "auto") | given)

    @property
    def switched(self) -> frozenset[str]:
        """The steps that are left to the coordinator."""
        return frozenset(step for step in SWITCHED_STEPS if getattr(self, step) == "auto")

    @property
    def at_first(self) -> Policy:
        """Where a query begins: baselines at the steps that are left to the coordinator."""
        return dataclasses.replace(self, **{step: SWITCHED_STEPS[step][0] for step in self.switched})

    @property
    def tracked(self) -> bool:
        """Whether every root tuple is followed to its end."""
        return self.replay != "off"

    @property
    def sharing(self) -> tuple[str, ...]:
        """The operators for which a shared inbox was asked by name."""
        return tuple(filter(None, self.inbox.partition(":")[2].split(",")))

    @property
    def replay_timeout_s(self) -> float:
        """Seconds after which an open root is sent again; ``adaptive`` begins there and takes older ones for lost."""
        kind, _, text = self.replay.partition(":")
        text = text if kind == "fixed" else ""
        try:
            seconds = float((text or "30s").removesuffix("s"))
        except ValueError:
            seconds = -1.0
        if not 0 < seconds < math.inf:
            raise ConfigError(
                f"A fixed replay timeout must be a positive number of seconds; found {text!r}.",
                "Write for example replay='fixed:30s'.",
            )
        return seconds

    @property
    def replay_share(self) -> float:
        """The share of roots that ``blind`` replication sends twice, for comparison; 0 under every other policy."""
        kind, _, text = self.replay.partition(":")
        if kind != "blind":
            return 0.0
        try:
            share = float(text or "1.0")
        except ValueError:
            share = -1.0
        if not 0 < share <= 1:
            raise ConfigError(
                f"Blind replication must have a share above 0 and up to 1; found {text!r}.",
                "Write for example replay='blind:0.2'.",
            )
        return share


#: Settings that are one of a few words.
_CHOICES: dict[str, tuple[str, ...]] = {
    "transport": ("auto", "ring", "uds", "tcp"),
    "share_across": ("node", "worker"),
    "ring_waiting": ("futex", "spin_then_futex", "busy"),
    "node_is": ("host", "executor", "worker"),
    "lost_state": ("fail", "accept"),
    "state_backend": ("memory", "disk"),
}
#: Settings that are free text.
_TEXTS = frozenset({"state_folder"})
#: Settings of which 0 means off.
_MAY_BE_ZERO = frozenset({"prometheus_port", "link_bytes_per_s", "queue_bytes"})


@dataclass(frozen=True)
class Settings:
    """Sizes, intervals and limits; a queue, a frame and a retry each have one here."""

    #: Open roots per source task; a source that has as many waits for acks.
    max_pending: int = 8192
    #: Tuples that may wait in front of one task, summed over its channels.
    inbox_tuples: int = 8192
    #: Tuples that may wait behind one task for one destination before the task is held back.
    outbox_tuples: int = 4096
    #: Bytes of values that may wait in one worker's queues, shared out over them; 0 is a quarter of its part of the
    #: executor's memory.
    queue_bytes: int = 0
    #: Tuples per frame at most.
    batch_max: int = 1024
    #: How long a tuple may wait for company while the worker is busy.
    flush_us: int = 1000
    #: Shortest time between two messages of acks, so that a busy stream's acks travel together.
    ack_pace_us: int = 500
    #: Shortest time between two messages of credits where senders go by what receivers have finished.
    credit_pace_us: int = 2000
    #: Replays for lateness per fresh root, under ``replay='adaptive'``: 3 % with what was saved up before.
    replay_budget: float = 0.028
    #: Replays for lateness that a source task may save up.
    replay_burst: int = 64
    #: Replays for lateness of one root, each after twice the wait of the one before; then it only counts as lost.
    replays_max: int = 8
    #: Divides the periods of adaptive policies (timeouts, weights): for short experiments.
    haste: float = 1.0
    #: Bytes of one message between workers at most; checked before memory is taken.
    frame_bytes_max: int = 16 * 1024 * 1024
    #: Bytes with which one worker's shared-memory inbox begins; it then follows its messages, from 1 to 16 MiB.
    ring_bytes: int = 4 * 1024 * 1024
    #: How workers of one node talk: ``auto`` takes the ring where it can be had, else Unix sockets.
    transport: str = "auto"
    #: Whose tasks take from one queue under ``inbox='shared'``: those of one node, or of one worker only.
    share_across: str = "node"
    #: How a worker waits at its ring: ``futex`` sleeps, ``spin_then_futex`` looks first, ``busy`` takes a core.
    ring_waiting: str = "futex"
    #: How long it looks under ``spin_then_futex``: a little more than the time between two records.
    ring_spin_us: int = 1000
    #: What a node may send to other nodes, tuples and their frames; 0 is no limit, and then there is no gate.
    link_bytes_per_s: int = 0
    #: Longest grant of the gate; what the uplink table says of a sender counts for twice as long.
    gate_tau_ms: float = 10.0
    #: Tuples per grant of the gate.
    gate_quantum: int = 4
    #: A task that the gate has passed over for so long goes next, under ``sending='lbf'``.
    gate_max_wait_ms: float = 100.0
    #: What counts as a node, for placement and the gate: a ``host``, or, for experiments on one, each ``executor`` or
    #: ``worker``.
    node_is: str = "host"
    #: Time a task may hold the loop of its worker before it gets a thread of its own.
    handoff_ms: int = 20
    #: User code that has not come back for so long is named in the progress, with its stack.
    stuck_after_s: float = 5.0
    #: How long a worker that ends waits for user code that still runs; ``close()`` is not called beside it.
    close_timeout_s: float = 1.5
    #: Time one turn of a task aims at; longer batches are cut.
    slice_us: int = 2000
    #: A worker that has not heard from the coordinator for so long stops.
    lease_s: float = 10.0
    #: What becomes of a query that loses a worker with keyed state or the state of a class: it fails, or, with
    #: ``accept``, goes on with empty state, warns and counts.
    lost_state: str = "fail"
    #: Where keyed state lies: in ``memory``, or on ``disk`` as far as it is more than ``state_cache_keys``.
    state_backend: str = "memory"
    #: Keys that one operator of a task keeps in memory under ``state_backend='disk'``.
    state_cache_keys: int = 65_536
    #: The folder for state on disk, on each node; empty is the one that Spark gives its executors, or a temporary one.
    state_folder: str = ""
    #: How often workers report.
    progress_s: float = 1.0
    #: How long all workers may take to register.
    register_timeout_s: float = 90.0
    #: How long ``stop()`` waits for open tuples.
    drain_timeout_s: float = 60.0
    #: How long ``stop()`` lets a batch of a streaming DataFrame end; then it is cut short, to be read again.
    batch_end_s: float = 5.0
    #: How long tasks may take to move; after that they go on where they were.
    move_timeout_s: float = 5.0
    #: How long key groups that are to move may wait for older roots to complete; nothing stands still meanwhile.
    key_move_wait_s: float = 30.0
    #: How long after moving tasks the rebalancing loop leaves them where they are.
    rebalance_cooldown_s: float = 10.0
    #: Hash slots of a keyed stream; a key's slot never changes, slots move between tasks.
    key_groups: int = 1024
    #: Whether latencies of single tasks are measured; what roots take is always measured.
    metrics: bool = True
    #: Loopback port on which the driver shows metrics as Prometheus text; 0 is off.
    prometheus_port: int = 0
    #: Edges of which a worker reports tuples and bytes one by one; the rest is added up.
    edges_reported_max: int = 64
    #: How many times its even share a task may get because it is near, under ``locality``.
    local_skew_max: float = 1.25
    #: Lines logged by operators that may wait at the driver; older ones are dropped, and counted.
    log_lines_max: int = 1000
    #: Progress reports kept for ``recentProgress``.
    progress_kept: int = 100

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in _CHOICES:
                _check_choice(field.name, value)
            elif field.name in _TEXTS:
                _check_text(field.name, value)
            elif field.name == "metrics" or (field.name in _MAY_BE_ZERO and value == 0):
                continue
            elif not _is_positive(value, whole=isinstance(field.default, int)):
                raise ConfigError(
                    f"Setting {field.name} must be a positive {'whole ' * isinstance(field.default, int)}number; "
                    f"found {value!r}.",
                    f"The default is {field.default}.",
                )


def _is_positive(value: object, *, whole: bool) -> bool:
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        return False
    return 0 < value < math.inf


def _check_choice(name: str, value: object) -> None:
    known = _CHOICES[name]
    if value not in known:
        raise ConfigError(
            f"Setting {name} must be one of {', '.join(known)}; found {value!r}.", nearest(str(value), known)
        )


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise ConfigError(f"Setting {name} must be a text; found {value!r}.", "Write a path as a plain string.")


def policy_of(given: object) -> Policy:
    """What a user passed as ``policy``; a mapping names the steps that are not left to the coordinator."""
    if given is None or given == "auto":
        return Policy.auto()
    if isinstance(given, Policy):
        return given
    if isinstance(given, Mapping):
        return from_mapping(Policy, dict.fromkeys(SWITCHED_STEPS, "auto") | dict(given))
    raise ConfigError(
        f"policy must be a tr.Policy, 'auto' or a mapping of steps to names; found {given!r}.",
        "Write for example policy={'routing': 'even'} or tr.Policy(replay='off').",
    )


def settings_of(given: object) -> Settings:
    """What a user passed as ``settings``; a mapping names those that differ from the defaults."""
    if given is None:
        return Settings()
    if isinstance(given, Settings):
        return given
    if isinstance(given, Mapping):
        return from_mapping(Settings, dict(given))
    raise ConfigError(
        f"settings must be tr.Settings or a mapping of names to values; found {given!r}.",
        "Write for example settings={'max_pending': 1000}.",
    )


def check_workers(given: object) -> None:
    """Refuse numbers of workers that are no whole number above 0; None is filled in later."""
    if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 1):
        raise ConfigError(
            f"workers must be a whole number above 0; found {given!r}.",
            "Give the number of task slots to take, or leave it out to have one per core.",
        )


def from_mapping(cls: type[T], values: dict[str, Any]) -> T:
    """Make a ``Policy`` or ``Settings`` from names and values; an unknown name is an error that names the nearest."""
    known = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    for name in values:
        if name not in known:
            raise ConfigError(f"{cls.__name__} has no setting {name!r}.", nearest(name, known))
    return cls(**values)
