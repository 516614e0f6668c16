"""Stamped: one of a key's two tasks by the odd or even number of the scheduling interval (Hone, section 7).

What a sender routes is stamped with now // tau; an odd stamp takes the key's first task and an even one the second. So
a key changes sides every tau (``Settings.gate_tau_ms``), and a burst that one task makes at once goes to one side only.
Hone stamps a tuple when it is sent; here it is stamped when it is filed for sending, because the outbox it waits in is
that of its destination. An option beside ``partial_key`` for untracked streams: the stamp of a replay is another one
than that of its first incarnation, so two incarnations would not meet, and ``check_untracked`` refuses that.

When it loses: against ``partial_key``, within one interval: all of a key's tuples go one way, so with long tau its two
tasks are busy in turn and not at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.errors import ConfigError
from tailrace.topology.keys import keys_of

from .partial_key import Pairs

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.batch import Batch


class Stamped:
    """Route by key and stamp; ``key`` is None when the values are the keys themselves."""

    several = False
    unwraps = False

    def __init__(self, key: Callable[[Any], Any] | None, tasks: int, tau_ns: int, now_ns: Callable[[], int]) -> None:
        self._key = key
        self._pairs = Pairs(tasks)
        self._tau_ns = tau_ns
        self._now_ns = now_ns

    def choose(self, values: list[Any], origin: Batch) -> list[int]:
        """Pick the side of the present stamp for every key."""
        del origin
        side = 1 - (self._now_ns() // self._tau_ns & 1)
        keys = values if self._key is None else keys_of(self._key, values)
        return [self._pairs[key][side] for key in keys]


def check_untracked(*, tracked: bool) -> None:
    """Refuse stamps where roots may be replayed."""
    if tracked:
        raise ConfigError(
            "routing='stamped' needs replay='off': a replay has another stamp and would miss its first incarnation.",
            "Use routing='partial_key', whose choice is the same for every incarnation.",
        )
