"""What the balancing policies see and keep: measurements per downstream task in, a weight per task out.

The coordinator calls ``adjust`` for every shuffle edge once per period with what was measured over that period, and
sends the weights to the edge's senders, which hand them to their rule's ``reweigh``. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class TaskView:
    """One downstream task over the last period; no tuples means that nothing is known of it."""

    #: Mean time from arrival at the task to the end of its work.
    latency_us: float
    #: Tuples it finished.
    tuples_per_s: float


@dataclass(frozen=True)
class Balance:
    """Weights of one edge's tasks, adding up to 1, and the aged measurements they came from."""

    weights: tuple[float, ...]
    aged: tuple[float | None, ...]

    @classmethod
    def even(cls, tasks: int) -> Balance:
        """Where every policy starts."""
        return cls((1.0 / tasks,) * tasks, (None,) * tasks)


class Balancer(Protocol):
    """Adjusts the weights of one edge once per period."""

    @property
    def period_s(self) -> float:
        """How often to adjust."""
        ...

    def adjust(self, balance: Balance, tasks: Sequence[TaskView]) -> Balance:
        """Take one period's measurements in."""
        ...


def aged(old: float | None, new: float, ageing: float) -> float:
    """W = a T + (1 - a) W; the first measurement stands as it is."""
    return new if old is None else ageing * new + (1 - ageing) * old
