"""What Erlang-C says of the scenarios of ``sharedqueue``: percentiles of a root's way through queues that are M/M/c.

Each queue's times in the system are drawn from their exact distribution and added up along the way, the later of two
branches counting. Exact for one queue and for rows of M/M/1; for rows of M/M/c nearly so, since tuples may overtake.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tailrace.simulate.theory import ErlangQueue

from .flows import KEPT_SHARE

if TYPE_CHECKING:
    from collections.abc import Callable

_ROOTS = 50_000


def pageload_s(stage_s: Callable[[float], float], random: Random) -> float:
    """Six operators in a row; the second and the fourth drop one tuple in five, which is done with by that."""
    total_s = stage_s(1.0)
    for share, is_filter in ((1.0, True), (KEPT_SHARE, False), (KEPT_SHARE, True)):
        total_s += stage_s(share)
        if is_filter and random.random() >= KEPT_SHARE:
            return total_s
    return total_s + stage_s(KEPT_SHARE**2) + stage_s(KEPT_SHARE**2)


def processing_s(stage_s: Callable[[float], float], random: Random) -> float:
    """One operator, then two branches of three; a root is complete with the later of them."""
    del random
    first_s = stage_s(1.0)
    return first_s + max(sum(stage_s(1.0) for _ in range(3)) for _ in range(2))


def micro_s(stage_s: Callable[[float], float], random: Random) -> float:
    """One operator."""
    del random
    return stage_s(1.0)


def percentiles_ms(way: str, servers: int, arrivals_per_s: float, services_per_s: float) -> dict[float, float]:
    """The 90th, 99th and 99.9th percentile of a root's latency, each operator with ``servers`` tasks to a queue.

    ``arrivals_per_s`` is what one task is sent by the source's full stream; a filter leaves the next ones less.
    """
    random = Random(1)  # noqa: S311 - a simulation
    queues: dict[float, ErlangQueue] = {}

    def stage_s(share: float) -> float:
        if share not in queues:
            queues[share] = ErlangQueue(servers, servers * arrivals_per_s * share, services_per_s)
        return queues[share].draw_s(random)

    follow = {"pageload": pageload_s, "processing": processing_s}.get(way, micro_s)
    found = sorted(follow(stage_s, random) for _ in range(_ROOTS))
    return {share: found[int(share * _ROOTS)] * 1000 for share in (0.9, 0.99, 0.999)}
