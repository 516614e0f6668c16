"""The coordinator's part in moving tasks: plans one after the other, each carried out by all workers or undone by all.

A plan goes ``Pause`` to everyone -> ``Cleared`` by every old place and ``Installed`` by every new one -> ``Relocate``
to everyone -> ``Relocated`` by everyone -> ``GoOn``. Until ``Relocate`` is said it can be undone: when a worker says
that it cannot, when one is lost, when ``move_timeout_s`` is over. From then on the new places hold, and a worker that
is lost comes back under them. Plans for key groups take their turn here too, with steps of their own (``key_moves``).
Owned by the coordinator's brain, which passes messages and the clock's reading in.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from tailrace import protocol
from tailrace.coordinator.migration.key_moves import KeyMoves, KeyPlan
from tailrace.coordinator.plans import Plan, Wanted
from tailrace.receiving.shared import shares
from tailrace.worker.errors import MoveError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tailrace.coordinator.brain import CoordinatorBrain
    from tailrace.worker.build import Program

_NS_PER_S = 1_000_000_000
_MS_PER_NS = 1e-6
#: Plans that may wait for their turn.
PLANS_MAX = 16
#: Plans of which ``lastProgress`` tells.
TOLD_MAX = 16


class Moves:
    """The moves of one query."""

    def __init__(self, brain: CoordinatorBrain, program: Program) -> None:
        self._brain = brain
        self._program = program
        self._queue: deque[Plan] = deque()
        self._active: Plan | None = None
        self._epoch = 0
        self.keys = KeyMoves(brain, program)
        self.told: deque[Plan] = deque(maxlen=TOLD_MAX)
        self.moved = 0

    @property
    def idle(self) -> bool:
        """Whether no plan is under way or waits."""
        return self._active is None and not self._queue

    @property
    def under_way(self) -> bool:
        """Whether tasks are between two places; key groups may be, for keyed tasks have nothing that is switched."""
        return self._active is not None and not isinstance(self._active, KeyPlan)

    # -- asking --------------------------------------------------------------------------------------------------

    def request(self, wanted: Iterable[Wanted], why: str) -> list[Plan]:
        """Ask for moves; raises where they cannot be. Gives one plan, or two: sources go by themselves, first.

        A source waits until nothing of it is open before it moves, which would never be if what it sent stood still in
        front of another task of the same plan.
        """
        brain, stages = self._brain, self._program.plan.stages
        self._check_running()
        moves = [each for each in wanted if brain.placement[each[0]][each[1]] != each[2]]
        for stage, _, slot in moves:
            self._check(stage, slot)
        plans = [
            Plan([move for move in moves if stages[move[0]].is_source == is_source], why) for is_source in (True, False)
        ]
        plans = [plan for plan in plans if plan.wanted]
        self._queue.extend(plans)
        return plans

    def request_keys(self, stage: int, groups: Mapping[int, int], why: str) -> list[Plan]:
        """Ask for key groups of a stage to go to these tasks; raises where they cannot. Gives one plan, or none."""
        self._check_running()
        plan = self.keys.asked(stage, groups, why)
        plans: list[Plan] = [plan] if plan.groups else []
        self._queue.extend(plans)
        return plans

    def _check_running(self) -> None:
        brain = self._brain
        if brain.state != "running" or brain.draining:
            raise MoveError(f"Tasks move while a query runs; this one is {brain.state}.", "Wait until it runs.")
        if len(self._queue) >= PLANS_MAX:
            raise MoveError(f"{PLANS_MAX} plans of moves wait already.", "Wait until some are carried out.")

    def _check(self, stage_id: int, slot: int) -> None:
        stage, policy = self._program.plan.stages[stage_id], self._program.policy
        member = self._brain.members.get(slot)
        if member is None or not member.open:
            known = ", ".join(str(each) for each, found in sorted(self._brain.members.items()) if found.open)
            raise MoveError(f"Worker {slot} is not open; those that are: {known}.", "Choose one of them.")
        if stage.is_source and not getattr(stage.head.fn, "movable", True):
            raise MoveError(
                f"The source {stage.head.name!r} cannot be opened again elsewhere at the offset it has reached.",
                "Move the other operators.",
            )
        if not stage.is_source and shares(stage, self._program.plan.inputs[stage_id], policy.inbox, policy.sharing):
            raise MoveError(
                f"The tasks of {stage.head.name!r} take from a shared inbox and cannot move one by one.",
                "Run the query with inbox='per_task' where tasks are to move.",
            )

    # -- one plan after the other --------------------------------------------------------------------------------

    def tick(self, now_ns: int) -> None:
        """Begin the next plan if everyone is there; undo one that takes too long."""
        plan = self._active
        if isinstance(plan, KeyPlan):
            self._tick_keys(plan, now_ns)
        limit_s = self._limit_s(plan)
        if plan is not None and plan.state == "moving" and now_ns - plan.begun_ns > limit_s * _NS_PER_S:
            self._undo(plan, f"it took longer than {limit_s:g} s: {self._missing(plan)}", now_ns)
        brain = self._brain
        if self._active is None and self._queue and all(each.open for each in brain.members.values()):
            self._begin(self._queue.popleft(), now_ns)

    def _tick_keys(self, plan: KeyPlan, now_ns: int) -> None:
        """Some steps wait for the sources' marks and not for a message; they are no use without all workers."""
        if plan.state == "moving" and not all(each.open for each in self._brain.members.values()):
            self._undo(plan, "a worker was lost", now_ns)
        elif plan.state == "moving" and self._brain.draining:
            self._undo(plan, "the query is being stopped", now_ns)
        elif self.keys.step_on(plan, now_ns):
            self._done(plan, now_ns)

    def _limit_s(self, plan: Plan | None) -> float:
        return self.keys.limit_s(plan) if isinstance(plan, KeyPlan) else self._program.settings.move_timeout_s

    def _missing(self, plan: Plan) -> str:
        if isinstance(plan, KeyPlan):
            return self.keys.missing(plan)
        return "; ".join(sorted(self._described(each) for each in plan.awaited))

    def _described(self, awaited: tuple[str, int, int]) -> str:
        what, stage, task = awaited
        told = "was not let go" if what == "cleared" else "was not taken in"
        return f"task {task} of {self._program.plan.stages[stage].head.name!r} {told}"

    def _begin(self, plan: Plan, now_ns: int) -> None:
        brain = self._brain
        if isinstance(plan, KeyPlan):
            self._begin_keys(plan, now_ns)
            return
        plan.wanted = [each for each in plan.wanted if brain.placement[each[0]][each[1]] != each[2]]
        self.told.append(plan)
        plan.begun_ns = now_ns
        if not plan.wanted or any(each[2] not in brain.members for each in plan.wanted):
            plan.state, plan.reason = ("undone", "a worker has left") if plan.wanted else ("done", "")
            return
        self._epoch += 1
        self._active = plan
        plan.epoch, plan.state = self._epoch, "moving"
        plan.awaited = {(what, stage, task) for stage, task, _ in plan.wanted for what in ("cleared", "installed")}
        rows = [[stage, task, brain.placement[stage][task], slot] for stage, task, slot in plan.wanted]
        brain.tell_all(protocol.Pause(plan.epoch, rows))

    def _begin_keys(self, plan: KeyPlan, now_ns: int) -> None:
        self.told.append(plan)
        self._epoch += 1
        self._active = plan
        plan.epoch = self._epoch
        self.keys.begin(plan, now_ns)

    def on_message(self, slot: int, message: protocol.FromWorker, now_ns: int) -> None:
        """Take in what a worker says about the plan under way."""
        plan = self._active
        match message:
            case _ if plan is None or plan.epoch != message.epoch:  # type: ignore[union-attr]
                return
            case protocol.MoveFailed(message=reason, hint=hint) if plan.state == "moving":
                plan.hint = hint
                self._undo(plan, reason, now_ns)
                return
            case _ if isinstance(plan, KeyPlan):
                self.keys.hear(plan, slot, message)
            case protocol.Cleared(stage=stage, task=task):
                plan.awaited.discard(("cleared", stage, task))
            case protocol.Installed(stage=stage, task=task):
                plan.awaited.discard(("installed", stage, task))
            case protocol.Relocated():
                plan.awaited.discard(slot)
        if not plan.awaited:
            self._next_step(plan, now_ns)

    def _next_step(self, plan: Plan, now_ns: int) -> None:
        brain = self._brain
        if isinstance(plan, KeyPlan):
            self._tick_keys(plan, now_ns)
            return
        if plan.state == "moving":
            for stage, task, slot in plan.wanted:
                brain.placement[stage][task] = slot
            plan.state = "switching"
            plan.awaited = {slot for slot, member in brain.members.items() if member.open}
            brain.tell_all(protocol.Relocate(plan.epoch))
            return
        self._done(plan, now_ns)

    def _done(self, plan: Plan, now_ns: int) -> None:
        brain = self._brain
        plan.state = "done"
        self.moved += len(plan.wanted)
        self._close(plan, now_ns)
        brain.tell_all(protocol.GoOn(plan.epoch))
        for edge, balance in brain.balancing.balances.items():  # a task that moved has begun with equal ones
            brain.tell_all(protocol.Weights(edge, list(balance.weights)))

    def _undo(self, plan: Plan, reason: str, now_ns: int) -> None:
        plan.state, plan.reason = "undone", reason
        self._close(plan, now_ns)
        self._brain.tell_all(protocol.Undo(plan.epoch))

    def _close(self, plan: Plan, now_ns: int) -> None:
        paused_ns = self.keys.paused_ns(plan, now_ns) if isinstance(plan, KeyPlan) else now_ns - plan.begun_ns
        plan.pause_ms = paused_ns * _MS_PER_NS
        self._active = None

    # -- what comes between --------------------------------------------------------------------------------------

    def on_lost(self, slot: int, now_ns: int) -> None:
        """A worker was lost: undo what is not decided; what is goes on without it."""
        plan = self._active
        if plan is None:
            return
        if plan.state == "moving":
            self._undo(plan, f"worker {slot} was lost", now_ns)
        else:
            plan.awaited.difference_update({slot, ("slot", slot)})
            if not plan.awaited:
                self._next_step(plan, now_ns)

    def cancel(self, reason: str, now_ns: int) -> None:
        """Undo what is not decided and begin nothing more: the query is about to end."""
        for plan in self._queue:
            plan.state, plan.reason = "undone", reason
        self._queue.clear()
        if self._active is not None and self._active.state == "moving":
            self._undo(self._active, reason, now_ns)

    # -- telling -------------------------------------------------------------------------------------------------

    def rows(self) -> list[dict[str, Any]]:
        """What ``lastProgress`` and ``explain()`` show: the newest plans, oldest first."""
        return [self.row(plan) for plan in self.told]

    def row(self, plan: Plan) -> dict[str, Any]:
        """Show one plan."""
        return {
            "epoch": plan.epoch,
            "moves": self.keys.described(plan)
            if isinstance(plan, KeyPlan)
            else [
                f"{self._program.plan.stages[stage].head.name}[{task}] -> worker {slot}"
                for stage, task, slot in plan.wanted
            ],
            "state": plan.state,
            "why": plan.why,
            "reason": plan.reason,
            "pause_ms": round(plan.pause_ms, 3),
        }
