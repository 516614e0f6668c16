"""Picks the rule of an edge from its grouping, the policy and what stands at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.clock import SystemClock

from .at_random import AtRandom
from .by_root import ByRoot
from .detour import Detour
from .fields import Fields
from .fixed import All, Custom, DirectRule
from .key_table import rule_for
from .load_aware import LoadAware
from .partial_key import PartialKey
from .sampled import Sampled
from .shortest_delay import ShortestDelay
from .shuffle import Shuffle
from .stamped import Stamped
from .weighted import Weighted, ring_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.config import Settings
    from tailrace.protocol import KeyTable
    from tailrace.topology.plan import Stage, StageEdge

    from .base import Router
    from .near import Row, Rule

_NS_PER_MS = 1_000_000
#: Routing policies that go by what is pending at each task.
PENDING_ROUTINGS = frozenset({"shortest_delay", "load_aware"})
#: Groupings under which any task may take any tuple.
SHAREABLE = frozenset({"auto", "shuffle", "local"})
#: Policies that share a free edge out by what they measure.
BALANCED = frozenset({"latency", "load_aware", "shortest_delay"})


def router_for(
    edge: StageEdge,
    target: Stage,
    *,
    sender: int,
    local: Sequence[int],
    tracked: bool,
    settings: Settings,
    routing: str = "even",
    adaptive: bool = False,
    senders: int = 1,
    near: Row | None = None,
    switched: bool = False,
    now_ns: Callable[[], int] = SystemClock.now_ns,
    table: KeyTable | None = None,
    counted: bool = False,
) -> Router:
    """Make the rule for one sending task; ``local`` are the target's tasks in the sender's own worker.

    ``routing`` names the policy of shuffled edges (``partial_key``, ``stamped``: keyed ones), ``adaptive`` tells that
    roots may be replayed for lateness, ``senders`` is how many tasks send on this edge, ``near`` are the tasks' shares
    where it keeps near, ``switched`` that the rule may be another one later on, ``table`` who has which key groups
    where some have moved, ``counted`` that their traffic is to be counted.
    """
    kind, fn, tasks = edge.grouping.kind, edge.grouping.fn, target.tasks
    name = f"{edge.src} -> {target.head.name}"
    if kind == "fields" and getattr(target.head.fn, "two_choices", False):
        if routing == "partial_key":
            return PartialKey(fn, tasks)
        if routing == "stamped":
            return Stamped(fn, tasks, int(settings.gate_tau_ms * _NS_PER_MS), now_ns)
    if kind == "fields":
        key = None if target.head.verb == "count" else fn
        rule: Router = Fields(key, tasks, settings.key_groups) if table is None else rule_for(table, key, tasks)
        return Sampled(rule, key, max(settings.key_groups, tasks)) if counted else rule
    if kind == "all":
        return All(tasks)
    if kind == "global":
        return Shuffle([0])
    if kind == "direct":
        return DirectRule(name, tasks)
    if kind == "custom" and fn is not None:
        return Custom(name, fn, tasks)
    if tracked and target.guarded:
        return ByRoot(range(tasks) if near is None else ring_of(near))
    # Senders that choose among different tasks have to keep a bundle together, or each would cut it in its own way.
    if not is_free(edge, target, local=local, tracked=tracked):
        return Shuffle(local, sender, whole=True) if local and kind == "local" else Shuffle([0])
    if near is not None:
        ring = ring_of(near)
        rule = Shuffle(ring, sender * len(ring) // max(1, senders), whole=True)
        return Detour(rule, tasks) if tracked and adaptive else rule
    together = switched or kind == "local"
    return free_rule(routing, tasks, sender, senders, adaptive=tracked and adaptive, switched=together)


def is_free(edge: StageEdge, target: Stage, *, local: Sequence[int], tracked: bool) -> bool:
    """Whether any of several tasks may take any tuple of a sender: there is something to balance."""
    return (
        edge.grouping.kind in SHAREABLE
        and target.tasks > 1
        and not (tracked and target.guarded)
        and not (local and edge.grouping.kind == "local")
    )


def near_rule(edge: StageEdge, target: Stage, *, tracked: bool, balanced: bool, adaptive: bool) -> Rule:
    """What node-local shuffle has to know of an edge; where a balancer decides, it keeps out."""
    if edge.grouping.kind not in SHAREABLE:
        return "spread"
    if tracked and target.guarded:
        return "root"
    if edge.grouping.kind == "local":
        return "local"
    if balanced:
        return "spread"
    return "detour" if tracked and adaptive else "free"


def goes_by_pending(routing: str, *, tracked: bool, adaptive: bool) -> bool:
    """Whether the rule of a free edge must hear of tuples as they are finished."""
    return routing in PENDING_ROUTINGS or (tracked and adaptive)


def free_rule(
    routing: str,
    tasks: int,
    sender: int,
    senders: int,
    *,
    adaptive: bool,
    switched: bool = False,
    pending: Sequence[int] | None = None,
) -> Router:
    """The rule of an edge on which any task may take any tuple; ``pending`` is what is under way to each already.

    Rules that follow one another on an edge have to cut a bundle alike, or the guards behind it would not know a replay
    again: those that may be switched all keep a bundle together, plain round robin by way of equal weights.
    """
    rule: Router
    if routing == "load_aware":
        return LoadAware(tasks, sender, pending)
    if routing == "random":
        return AtRandom(tasks, sender)
    if routing == "shortest_delay":
        rule = ShortestDelay([1.0 / tasks] * tasks, sender, senders, pending)
    elif routing == "latency" or switched:
        rule = Weighted([1.0] * tasks, sender)
    else:
        rule = Shuffle(range(tasks), sender)
    return Detour(rule, tasks, pending) if adaptive else rule
