"""The rebalancing loop: looks at every progress report and moves tasks, or key groups, when that pays.

StroMAX (text 003, section IV) rebalances when a node is overloaded, TurboStream (text 004, section V) places again by
what was measured; both restart the topology for it, so neither asks what a move costs. Ours does. With utilisation rho
of a server (a worker's loop, or the thread of a task that has one) rho^2 / (1 - rho) tuples wait in front of it, or as
many as were seen there; a placement is worth the tuples fewer that would wait, over a horizon, and costs the tuples
that arrive while their tasks stand still, half a pause each. It is made when it is worth more than it costs in two
looks running, and not within a cool-down after the last one. A worker's speed is what a tuple costs elsewhere over what
it costs there, and is remembered for a while, or an emptied slow worker would be filled again at once. Key groups of
an overloaded task (``hot_keys``) are weighed in the same way, and whatever pays more is done.

When it loses: queues are taken for M/M/1, so bursts look like overload and even arrivals like less of it; a load that
changes faster than the cool-down is followed too late. Called by the coordinator's brain; pure but for its memory.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tailrace.coordinator.migration.key_relief import best_offer
from tailrace.coordinator.migration.move_cost import HORIZON_S, cost, waiting, worth
from tailrace.coordinator.migration.replanning import loads_of, measured_rows, moves_to, place_of, speeds_of
from tailrace.errors import TailraceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.coordinator.brain import CoordinatorBrain
    from tailrace.coordinator.migration.replanning import Key
    from tailrace.coordinator.operations.operation import Operation
    from tailrace.coordinator.operations.task_move import Wanted
    from tailrace.program.program import Program

_NS_PER_S = 1_000_000_000
_S_PER_MS = 1e-3
#: Fewer tuples than this are no queue worth a pause.
QUEUE_MIN = 2.0
#: What a pause is taken for before the first move.
PAUSE_FIRST_S = 0.05
#: A worker at less of the usual speed than this is named in the reason.
_SLOW = 0.7
_LOOKS = 2
#: For how many cool-downs the speed of a worker without tasks is remembered.
_MEMORY_COOLDOWNS = 6
#: What ``auto`` chooses from.
_CANDIDATES = ("spread", "stromax", "turbostream")


def waiting_in(place: dict[Key, int], loads: dict[Key, float], speeds: dict[int, float], own_thread: set[Key]) -> float:
    """Tuples that wait in all, under a placement; tasks without a thread of their own share their worker's loop."""
    loops: dict[int, float] = {}
    total = 0.0
    for key, slot in place.items():
        used = loads[key] / speeds.get(slot, 1.0)
        if key in own_thread:
            total += waiting(used)
        else:
            loops[slot] = loops.get(slot, 0.0) + used
    return total + sum(map(waiting, loops.values()))


def _pays(saved: float, spent: float) -> bool:
    return saved > max(spent, QUEUE_MIN * HORIZON_S)


def _told(saved: float, spent: float) -> str:
    return f"{saved:,.0f} tuple-seconds saved in {HORIZON_S:g} s against {spent:,.1f} of pause"


class Rebalancing:
    """The decisions of one query's loop."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._policy = program.policy.rebalance
        self._decision = "nothing yet"
        self._why = "nothing measured yet"
        self._speeds: dict[int, tuple[float, int]] = {}
        self._agreed = 0
        self._quiet_until_ns = 0
        self._asked: list[Operation] = []
        self._pause_s = PAUSE_FIRST_S

    def row(self) -> dict[str, Any] | None:
        """What ``lastProgress`` shows: the newest decision and its reason; None where the loop is off."""
        if self._policy == "off":
            return None
        return {"policy": self._policy, "decision": self._decision, "why": self._why}

    def look(self, now_ns: int, brain: CoordinatorBrain) -> None:
        """Take the newest progress in, and move tasks if that pays."""
        if self._policy == "off" or brain.draining or not all(each.open for each in brain.members.values()):
            return
        self._learn_pause()
        rows = measured_rows(self._program, brain)
        speeds = self._learn_speeds(rows, sorted(brain.members), now_ns)
        if not brain.operations.idle or now_ns < self._quiet_until_ns:
            self._decision, self._why = "stay", "tasks have moved a moment ago"
            return
        wanted, saved, spent, by = self._best(brain, rows, speeds)
        offer = best_offer(self._program, brain, rows, self._pause_s)
        brain.key_loads.age()
        if offer is not None and _pays(offer.worth, offer.cost) and offer.worth - offer.cost > saved - spent:
            self._why = f"{_told(offer.worth, offer.cost)}, by hot_keys: {offer.why}"
            ask = partial(brain.operations.move_keys, offer.stage, offer.groups)
            self._agree(f"move {len(offer.groups)} key group(s)", ask, now_ns)
            return
        if not wanted or not _pays(saved, spent):
            self._agreed = 0
            self._decision = "stay"
            self._why = (
                f"moving {len(wanted)} task(s) by {by} would save {saved:,.0f} tuple-seconds in {HORIZON_S:g} s and "
                f"cost {spent:,.1f}" if wanted else "every policy asked leaves all tasks where they are"
            )  # fmt: skip
            return
        slow = [f"worker {slot} at {speed:.2f} of the usual speed" for slot, speed in speeds.items() if speed < _SLOW]
        self._why = f"{_told(saved, spent)}, by {by}" + "".join(f"; {each}" for each in slow)
        self._agree(f"move {len(wanted)} task(s)", partial(brain.operations.move_tasks, wanted), now_ns)

    def _agree(self, decision: str, ask: Callable[[str], list[Operation]], now_ns: int) -> None:
        """Do it when two looks running have found that something pays."""
        self._agreed += 1
        self._decision = decision + ("" if self._agreed >= _LOOKS else " if the next look agrees")
        if self._agreed < _LOOKS:
            return
        self._agreed = 0
        self._quiet_until_ns = now_ns + int(self._program.settings.rebalance_cooldown_s * _NS_PER_S)
        try:
            self._asked = ask(f"rebalancing: {self._why}")
        except TailraceError as error:
            self._decision, self._why = "stay", error.message

    def _learn_pause(self) -> None:
        for operation in self._asked:
            if operation.state == "done":
                self._pause_s += 0.5 * (operation.pause_ms * _S_PER_MS - self._pause_s)
        self._asked = [operation for operation in self._asked if not operation.over]

    def _learn_speeds(self, rows: dict[Key, dict[str, Any]], slots: list[int], now_ns: int) -> dict[int, float]:
        working = {row["worker"] for row in rows.values() if row["inPerSecond"]}
        for slot, speed in speeds_of(rows, slots).items():
            if slot in working:
                self._speeds[slot] = speed, now_ns
        oldest_ns = now_ns - int(_MEMORY_COOLDOWNS * self._program.settings.rebalance_cooldown_s * _NS_PER_S)
        self._speeds = {slot: each for slot, each in self._speeds.items() if slot in slots and each[1] >= oldest_ns}
        return {slot: self._speeds[slot][0] if slot in self._speeds else 1.0 for slot in slots}

    def _best(
        self, brain: CoordinatorBrain, rows: dict[Key, dict[str, Any]], speeds: dict[int, float]
    ) -> tuple[list[Wanted], float, float, str]:
        """The moves that pay most: with what they are worth and cost, and whose they are."""
        place = place_of(brain)
        loads = loads_of(place, rows, speeds)
        own = {key for key, row in rows.items() if row["runs"] != "inline"}
        queued = float(sum(row["inbox"] for row in rows.values()))
        before = waiting_in(place, loads, speeds, own)
        best: tuple[list[Wanted], float, float, str] = ([], 0.0, 0.0, self._policy)
        for policy in _CANDIDATES if self._policy == "auto" else (self._policy,):
            wanted = moves_to(self._program, brain, policy, sorted(brain.members), speeds)
            after = waiting_in(place | {(stage, task): slot for stage, task, slot in wanted}, loads, speeds, own)
            rate = sum(rows[stage, task]["inPerSecond"] for stage, task, _ in wanted if (stage, task) in rows)
            saved, spent = worth(before, after, queued), cost(rate, self._pause_s)
            if wanted and (not best[0] or saved - spent > best[1] - best[2]):
                best = wanted, saved, spent, policy
        return best
