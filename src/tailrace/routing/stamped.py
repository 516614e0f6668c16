"""Stamped: one of a key's two tasks by the odd or even scheduling stamp that the gate gave (Hone, section 7).

The sender stamps what it routes with the number of the scheduling interval, now // tau; an odd stamp takes the key's
first task and an even one the second. So a key changes sides every tau, and a burst that a large backlog sends at once
goes to one side only. An option beside ``partial_key`` for untracked streams: the stamp of a replay is another one than
that of its first incarnation, so two incarnations would not meet, and ``check_untracked`` refuses that.

When it loses: against ``partial_key``, within one interval: all of a key's tuples go one way, so with long tau its two
tasks are busy in turn and not at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .fixed import RouteError
from .partial_key import pair_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.batch import Batch


class Stamped:
    """Route by key and stamp; the sender calls ``stamp`` with each grant of its gate."""

    several = False
    unwraps = False

    def __init__(self, key: Callable[[Any], Any] | None, tasks: int, tau_ns: int) -> None:
        self._key = key
        self._tasks = tasks
        self._tau_ns = tau_ns
        self._side = 1

    def stamp(self, now_ns: int) -> None:
        """Note the time at which what follows is scheduled."""
        self._side = 1 - (now_ns // self._tau_ns & 1)

    def choose(self, values: list[Any], origin: Batch) -> list[int]:
        """Pick the side of the present stamp for every key."""
        del origin
        keys = values if self._key is None else map(self._key, values)
        return [pair_of(key, self._tasks)[self._side] for key in keys]


def check_untracked(edge: str, *, tracked: bool) -> None:
    """Refuse stamps where roots may be replayed."""
    if tracked:
        raise RouteError(
            f"Routing {edge} by scheduling stamp needs replay='off': a replay would miss its first incarnation.",
            "Use routing='partial_key', whose choice is the same for every incarnation.",
        )
