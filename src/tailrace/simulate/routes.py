"""The edges of a simulated topology: which of the runtime's routing rules each sending task asks, and their shares.

``engine`` asks for destinations and reports measurements; nothing here knows how a rule decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.routing.balance import Balance
from tailrace.routing.by_root import ByRoot
from tailrace.routing.detour import Detour
from tailrace.routing.fields import Fields
from tailrace.routing.latency import LatencyBalancer
from tailrace.routing.load_aware import LoadAware
from tailrace.routing.partial_key import PartialKey
from tailrace.routing.shortest_delay import RateEstimator, ShortestDelay
from tailrace.routing.shuffle import Shuffle
from tailrace.routing.weighted import Weighted, ring_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from tailrace.batch import Batch
    from tailrace.routing import Router
    from tailrace.routing.balance import Balancer, TaskView
    from tailrace.routing.near import Row, Rule

    from .model import Policies, StageModel
    from .tasks import TaskServer

KEY_GROUPS = 1024
BALANCERS: dict[str, Balancer] = {"latency": LatencyBalancer(), "shortest_delay": RateEstimator()}

#: Rules that never look at heads: others keep the values of a head together.
_HEADLESS = (Shuffle, Fields)


class RandomShuffle:
    """Each tuple to any task: the simulator's own baseline, because it is what M/M/1 assumes."""

    several = False
    unwraps = False

    def __init__(self, tasks: int, random: Random) -> None:
        self._tasks = tasks
        self._random = random

    def choose(self, values: list[int], origin: Batch) -> list[int]:
        """Draw a task for each value."""
        del origin
        return [int(self._random.random() * self._tasks) for _ in values]


class Edge:
    """What leaves one operator for the tasks of another."""

    def __init__(self, number: int, senders: int, stage: StageModel, targets: list[TaskServer], random: Random) -> None:
        self.number = number
        self.stage = stage
        self.targets = targets
        self.balancer: Balancer | None = None
        self._near: Sequence[Row] | None = None
        self.balance = Balance.even(len(targets))
        self._senders = senders
        self._random = random
        self._routers: list[Router] = []
        self._credits: dict[tuple[int, int], int] = {}
        #: What is under way, by sender and task, where rules may change at run time: the next one must know.
        self._pending: list[list[int]] | None = None
        #: Whether the senders' rule looks at root, incarnation or lineage; making them up for nothing takes time.
        self.wants_heads = True
        #: Whether the senders' rule wants to know what is finished.
        self.credited = False

    def apply(self, policies: Policies, near: Sequence[Row] | None = None) -> None:
        """Take the rules of new policies; shares begin again. ``near`` are the shares of one that keeps near."""
        self._near = near
        if policies.auto and self._pending is None:
            self._pending = [[0] * len(self.targets) for _ in range(self._senders)]
        self.balance = Balance.even(len(self.targets))
        shuffled = self.stage.grouping == "shuffle"
        self.balancer = BALANCERS[policies.routing] if shuffled and policies.routing in BALANCERS else None
        self.credited = shuffled and (
            policies.routing in {"load_aware", "shortest_delay"} or policies.replay == "adaptive"
        )
        self._credits.clear()
        self._routers = [self._router(sender, policies) for sender in range(self._senders)]
        self.wants_heads = not isinstance(self._routers[0], _HEADLESS)

    def _router(self, sender: int, policies: Policies) -> Router:
        tasks, grouping = len(self.targets), self.stage.grouping
        pending = self._pending[sender] if self._pending else None
        if grouping == "random":
            return RandomShuffle(tasks, self._random)
        if grouping == "by_root":
            return ByRoot(range(tasks))
        if grouping == "fields":
            return Fields(None, tasks, KEY_GROUPS) if policies.keyed == "fields" else PartialKey(None, tasks)
        if policies.routing in {"load_aware", "load_reports"}:
            return LoadAware(tasks, sender, pending)
        rule: Router
        if policies.routing == "shortest_delay":
            rule = ShortestDelay(self.balance.weights, sender, self._senders, pending)
        elif self.balancer:
            rule = Weighted(self.balance.weights, sender)
        else:
            rule = Shuffle(ring_of(self._near[sender]) if self._near else range(tasks), sender)
        return Detour(rule, tasks, pending) if policies.replay == "adaptive" else rule

    def rule(self, *, adaptive: bool) -> Rule:
        """What node-local shuffle has to know of this edge."""
        if self.stage.grouping != "shuffle":
            return "root" if self.stage.grouping == "by_root" else "spread"
        return "detour" if adaptive else "free"

    def choose(self, sender: int, keys: list[int], origin: Batch) -> list[int]:
        """Ask the sender's rule."""
        dests = self._routers[sender].choose(keys, origin)
        if self._pending:
            for dest in dests:
                self._pending[sender][dest] += 1
        return dests

    def report(self, loads: Sequence[float]) -> None:
        """Tell rules that go by queue lengths how long the queues are."""
        for router in self._routers:
            if isinstance(router, LoadAware):
                router.report(loads)

    def adjust(self, views: Sequence[TaskView]) -> None:
        """Let the balancer move shares."""
        if self.balancer is None:
            return
        self.balance = self.balancer.adjust(self.balance, views)
        for asked in self._routers:
            router = asked.inner if isinstance(asked, Detour) else asked
            if isinstance(router, Weighted | ShortestDelay) and router.weights != self.balance.weights:
                router.reweigh(self.balance.weights)

    def finished(self, sender: int, dest: int) -> None:
        """Count a tuple that its task has finished, until the next credits are due."""
        if self._pending:
            self._pending[sender][dest] -= 1
        if self.credited:
            pair = (sender, dest)
            self._credits[pair] = self._credits.get(pair, 0) + 1

    def give_credits(self) -> None:
        """Tell the senders what was finished."""
        for (sender, dest), tuples in self._credits.items():
            router = self._routers[sender]
            if isinstance(router, LoadAware | ShortestDelay | Detour):
                router.finished(dest, tuples)
        self._credits.clear()
