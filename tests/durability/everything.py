"""One query through everything that may happen to it: losses, moves, scaling, switches, savepoints, other drivers.

``Life`` draws what happens next from a seed; tests say which topology lives it and what must have come out at the end.
"""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING, Any

import tailrace as tr
from tailrace.checkpoint.settings import Checkpoint
from tailrace.checkpoint.stores.memory import MemoryStore
from tailrace.clock import FakeClock
from tailrace.config import Policy
from tailrace.errors import TailraceError
from tailrace.testing.inprocess import InProcess

from .test_recovery import SETTINGS
from .test_sinks import MoodyStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.checkpoint.savepoint import Savepoint

POLICIES = [
    Policy(),
    Policy(locality="node"),
    Policy(locality="worker"),
    Policy(routing="latency"),
    Policy(routing="shortest_delay", replay="adaptive"),
    Policy(locality="node", inbox="shared"),
    Policy(rebalance="spread"),
    Policy.auto(),
    Policy.auto(locality="node"),
]
WORKERS_MAX = 4
SWITCHES = {
    "routing": ["even", "latency", "shortest_delay", "auto"],
    "inbox": ["per_task", "shared", "auto"],
    "replay": ["fixed:30s", "adaptive", "auto"],
}


class Life:
    """What happens to one query: drivers one after the other, and what each of them goes through."""

    def __init__(self, name: str, seed: int, policy: Policy | None = None) -> None:
        self.rng = random.Random(f"{name} {seed}")
        self.seed = seed
        self.policy = self.rng.choice(POLICIES) if policy is None else policy
        self.drivers = self.rng.choice([1, 2, 2, 3])
        self.standby = self.rng.choice([0, 0, 1])
        self._store = MoodyStore(self.rng, 0.0)
        self._clock = FakeClock()
        self._restore: Savepoint | None = None
        self._saved = 0
        #: Where the drained savepoint is made that was asked for last.
        self._drained_at = ""
        self._address = f"memory:{name}-{seed}-{id(self)}"
        #: What happened, for whoever looks for a cause.
        self.story: list[str] = []

    def live(self, draw: Callable[[], Any], *, drained: bool = True, zombies: bool = True) -> list[Any]:
        """Go through everything; gives what the sinks on the driver have been given, in all."""
        given: list[Any] = []
        for left in reversed(range(self.drivers)):
            drawn = draw()
            with self._driver(drawn.flow) as query:
                for _ in range(self.rng.randint(2, 12)):
                    query.turns(self.rng.randint(1, 60))
                    if query.brain.state == "ended":
                        break
                    self._something(query, drained=drained, zombies=zombies)
                if left and query.brain.state != "ended":
                    continue
                self._all_here(query)
                query.finish()
                if not self._stopped(query):
                    return given + list(drawn.out.values)
                given += drawn.out.values
        drawn = draw()
        with self._driver(drawn.flow) as query:
            query.finish()
        return given + list(drawn.out.values)

    def _driver(self, flow: tr.Topology) -> InProcess:
        workers = self.rng.randint(1, WORKERS_MAX)
        self.story.append(f"driver of {workers} under {self.policy}")
        every = Checkpoint(
            "memory", every_s=self.rng.choice([0.0002, 0.0005, 0.002]), standby=self.standby, tolerated_failures=10_000
        )
        self._store.refuses = 0.0
        query = InProcess(
            flow, workers=workers, nodes=self.rng.randint(1, workers), policy=self.policy, settings=SETTINGS,
            seed=self.rng.randrange(10**6), store=self._store, checkpoint=every, restore=self._restore,
            clock=self._clock,
        )  # fmt: skip
        self._store.refuses = self.rng.choice([0.0, 0.1])
        return query

    def _stopped(self, query: InProcess) -> bool:
        """Whether the query ended with a savepoint: it goes on from there, in a checkpoint of its own."""
        savepoints = query.brain.checkpoints.savepoints
        if not savepoints.stopped:
            return False
        self.story.append("goes on from its savepoint")
        self._restore = tr.Savepoint(self._drained_at)
        self._store = MoodyStore(self.rng, 0.0)
        return True

    def _all_here(self, query: InProcess) -> None:
        query.turns(5)
        for slot, member in list(query.brain.members.items()):
            if not member.alive and query.brain.state != "ended":
                query.come_back(slot)

    # -- what may happen -----------------------------------------------------------------------------------------

    def _something(self, query: InProcess, *, drained: bool, zombies: bool) -> None:
        happenings = [self._lose, self._lose, self._move, self._move_keys, self._scale, self._switch, self._save]
        happening = self.rng.choice(happenings)
        self.story.append(happening.__name__)
        if happening == self._lose:
            self._lose(query, zombies=zombies)
        elif happening == self._save:
            self._save(query, drained=drained and self.rng.random() < 0.3)
        else:
            with contextlib.suppress(TailraceError):  # what cannot be now is refused
                happening(query)

    def _lose(self, query: InProcess, *, zombies: bool) -> None:
        rng, members = self.rng, query.brain.members
        for slot in rng.sample(sorted(members), min(len(members), rng.choice([1, 1, 2]))):
            if slot not in members or query.brain.state == "ended":
                continue
            self.story.append(f"worker {slot}")
            if not members[slot].alive:
                query.come_back(slot)
            elif zombies and rng.random() < 0.2:
                query.cut_off(slot)
            else:
                query.kill(slot, comes_back=not self.standby or rng.random() < 0.5)

    def _move(self, query: InProcess) -> None:
        rng, placement = self.rng, query.brain.placement
        stage = rng.randrange(len(placement))
        task, slot = rng.randrange(len(placement[stage])), rng.choice(sorted(query.brain.members))
        query.brain.operations.move_tasks([(stage, task, slot)], "a test")

    def _move_keys(self, query: InProcess) -> None:
        rng, brain = self.rng, query.brain
        stages = [each for each in brain.program.plan.stages if each.tasks > 1 and each.head.verb in KEYED]
        if stages:
            stage = rng.choice(stages)
            held = brain.operations.key_tasks(stage.id)
            old, new = rng.sample(range(stage.tasks), 2)
            groups = [group for group, task in enumerate(held) if task == old]
            moves = dict.fromkeys(rng.sample(groups, len(groups) // 2), new)
            brain.operations.move_keys(stage.id, moves, "a test")

    def _scale(self, query: InProcess) -> None:
        rng, brain = self.rng, query.brain
        slots = sorted(brain.members)
        if len(slots) < WORKERS_MAX and rng.random() < 0.6:
            (slot,) = brain.membership.expect(1)
            query.come_back(slot)
            return
        leaving = slots[-1]
        away = [
            (stage, task, rng.choice(slots[:-1]))
            for stage, row in enumerate(brain.placement)
            for task, at in enumerate(row)
            if at == leaving and len(slots) > 1
        ]
        if len(slots) > 1:
            brain.operations.move_tasks(away, "a test")
            brain.operations.leave([leaving], "a test")

    def _switch(self, query: InProcess) -> None:
        steps = {step: self.rng.choice(SWITCHES[step]) for step in self.policy.switched if step in SWITCHES}
        if steps:
            query.brain.switch(steps)

    def _save(self, query: InProcess, *, drained: bool) -> None:
        savepoints = query.brain.checkpoints.savepoints
        if not savepoints.busy:
            self._saved += 1
            address = f"{self._address}-{self._saved}"
            query.ask_savepoint(MemoryStore.shared(address), drained=drained)
            self._drained_at = address if drained else self._drained_at


KEYED = {"count", "reduce", "keyed_process"}
