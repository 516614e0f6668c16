"""Plans of moves as the coordinator keeps them: what is asked for, why, and what became of it.

Plain data of ``moves`` and ``key_moves``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: Stage, task and the slot it goes to.
Wanted = tuple[int, int, int]


@dataclass
class Plan:
    """Some moves that are made together, and what became of them."""

    wanted: list[Wanted]
    why: str
    #: ``waiting``, ``moving``, ``switching``, then ``done`` or ``undone``.
    state: str = "waiting"
    reason: str = ""
    hint: str = ""
    epoch: int = 0
    begun_ns: int = 0
    pause_ms: float = 0.0
    #: What is yet to be heard before the next step.
    awaited: set[Any] = field(default_factory=set)

    @property
    def over(self) -> bool:
        """Whether it was carried out or given up."""
        return self.state in {"done", "undone"}
