"""``query.state(operator)``: the states of a running query's operator, as its user reads them from a thread of his own.

Asks the coordinator's brain under its lock and waits for the answer, as moves do.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tailrace.coordinator.errors import StateReadError
from tailrace.coordinator.state_reads import StateRead
from tailrace.errors import ConfigError, nearest
from tailrace.routing.fields import group_count, group_of
from tailrace.topology.operators import KEYED_VERBS
from tailrace.transport import codec

if TYPE_CHECKING:
    from tailrace.coordinator.brain import CoordinatorBrain
    from tailrace.coordinator.loop import CoordinatorLoop
    from tailrace.topology.plan import Stage

_POLL_S = 0.002
_TIMEOUT_S = 10.0


class StateView:
    """The states of one operator by key, each as of the moment at which its worker answers."""

    def __init__(self, loop: CoordinatorLoop, brain: CoordinatorBrain, operator: str) -> None:
        self._loop = loop
        self._brain = brain
        self._operator = operator
        self._stage = _stage_of(brain, operator)

    def get(self, key: Any, *, timeout_s: float = _TIMEOUT_S) -> Any:
        """Read the state of a key; None if it has none."""
        groups = group_count(self._stage.tasks, self._brain.program.settings.key_groups)
        read = StateRead(self._stage.id, self._operator, group_of(key, groups), key=codec.dumps(key))
        return next((value for _, value in self._carry_out(read, timeout_s)), None)

    def items(self, *, limit: int = 100, timeout_s: float = _TIMEOUT_S) -> list[tuple[Any, Any]]:
        """Read some keys with their states, task by task, so many at most; each task's are of one moment."""
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ConfigError(f"limit must be a whole number above 0; found {limit!r}.")
        found: list[tuple[Any, Any]] = []
        for task in range(self._stage.tasks):
            if len(found) < limit:
                read = StateRead(self._stage.id, self._operator, task=task, limit=limit - len(found))
                found += self._carry_out(read, timeout_s)
        return found

    def _carry_out(self, read: StateRead, timeout_s: float) -> list[tuple[Any, Any]]:
        deadline_s = time.monotonic() + timeout_s
        self._loop.ask(lambda brain, _: brain.state_reads.begin(read))
        try:
            while read.answer is None:
                if self._brain.state == "ended":
                    raise StateReadError(
                        f"The state of {self._operator!r} cannot be read: the query has ended.",
                        "What a checkpoint has of it is shown by tailrace state PATH.",
                    )
                if time.monotonic() > deadline_s:
                    raise StateReadError(
                        f"The state of {self._operator!r} was not told within {timeout_s:g} s; the query is "
                        f"{self._brain.state}, its worker computes for long, or tasks are moving.",
                        "query.explain() has what is under way; give a larger timeout_s.",
                    )
                time.sleep(_POLL_S)
        finally:
            self._loop.ask(lambda brain, _: brain.state_reads.give_up(read))
        if read.answer.reason:
            raise StateReadError(f"The state of {self._operator!r} cannot be told: {read.answer.reason}.")
        found: list[tuple[Any, Any]] = codec.loads(read.answer.values)
        return found

    def __repr__(self) -> str:
        return f"<the state of {self._operator!r}: get(key), items(limit=...)>"


def _stage_of(brain: CoordinatorBrain, operator: str) -> Stage:
    plan = brain.program.plan
    specs = {spec.name: (stage, spec) for stage in plan.stages for spec in stage.operators}
    if operator not in specs:
        raise ConfigError(f"The topology has no operator {operator!r}.", nearest(operator, list(specs)))
    stage, spec = specs[operator]
    if spec.verb not in KEYED_VERBS:
        keyed = ", ".join(repr(name) for name, (_, each) in specs.items() if each.verb in KEYED_VERBS)
        raise ConfigError(
            f"The operator {operator!r} keeps no state by key; those that do: {keyed or 'none'}.",
            "State by key is what key_by(...) and an operator behind it keep.",
        )
    if any(edge.grouping.kind != "fields" for edge in plan.inputs[stage.id]) or getattr(spec.fn, "two_choices", False):
        raise ConfigError(
            f"A key of {operator!r} has more than one task in this query, so that its state is in several parts.",
            "Read the operator that joins them.",
        )
    return stage
