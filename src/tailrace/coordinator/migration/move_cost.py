"""What a move is worth and what it costs, in tuple-seconds: shared by the looks at tasks and at key groups. Pure."""

from __future__ import annotations

#: Over how long a better placement is thought to last.
HORIZON_S = 10.0
_USED_MAX = 0.98


def waiting(used: float) -> float:
    """Tuples that wait in front of a server that is used so much (M/M/1)."""
    used = min(used, _USED_MAX)
    return used * used / (1.0 - used)


def worth(before: float, after: float, queued: float) -> float:
    """Tuple-seconds that are saved where so many tuples would wait, before and after, and so many were seen to wait.

    What is queued goes down as what is predicted does; where that cannot fall, a long queue is no reason.
    """
    return max(before, queued) * (1.0 - after / before) * HORIZON_S if before else 0.0


def cost(per_s: float, pause_s: float) -> float:
    """Tuple-seconds that a pause takes from tuples that arrive at such a rate: half a pause each."""
    return per_s * pause_s**2 / 2
