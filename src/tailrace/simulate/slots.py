"""Hone's own model (section 4.4): N queues, one tuple leaves per slot, Poisson arrivals, a gate that picks the queue.

Far simpler than ``engine`` and exactly the paper's, for its figures 6 to 8; the gates are the runtime's.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from tailrace.sending.gate import Cursor, Entry, GateSettings
from tailrace.sending.registry import gate_by_name

if TYPE_CHECKING:
    from collections.abc import Sequence

SLOT_US = 100
SLOTS = 10_000
#: Where the paper samples Jain's index.
SAMPLED = tuple(range(1000, 10_000, 1000))


@dataclass(frozen=True)
class SlotResult:
    """One run: largest backlog, mean delay of what was sent, Jain's fairness index at the sampled slots."""

    max_backlog: int
    mean_delay_ms: float
    jain: tuple[float, ...]
    sent: int
    left: int


def poisson(random: Random, mean: float) -> int:
    """Draw a number of arrivals; the mean is small."""
    limit, count, product = math.exp(-mean), 0, random.random()
    while product > limit:
        count += 1
        product *= random.random()
    return count


def arrivals(queues: int, rate_per_s: float, slots: int, seed: int) -> list[list[int]]:
    """Tuples that come to each queue in each slot."""
    random = Random(f"{seed}/slots")  # noqa: S311 - a simulation
    mean = rate_per_s * SLOT_US / 1e6
    return [[poisson(random, mean) for _ in range(queues)] for _ in range(slots)]


def jain(backlogs: Sequence[int]) -> float:
    """(sum B)^2 / (N sum B^2); 1 when all are equal, also when all are empty."""
    squares = sum(each * each for each in backlogs)
    return sum(backlogs) ** 2 / (len(backlogs) * squares) if squares else 1.0


def run_slots(gate_name: str, trace: Sequence[Sequence[int]]) -> SlotResult:
    """Play a trace of arrivals through a gate: in every slot tuples come, then at most one leaves."""
    gate = gate_by_name(gate_name, GateSettings(tau_ns=SLOT_US * 1000, quantum=1, max_wait_ns=1 << 62))
    count = len(trace[0])
    queues: list[deque[int]] = [deque() for _ in range(count)]
    cursor = Cursor()
    most = sent = waited = 0
    fairness = []
    for slot, coming in enumerate(trace):
        for queue, number in zip(queues, coming, strict=True):
            queue.extend([slot] * number)
        now_ns = slot * SLOT_US * 1000
        table = [
            Entry(box, 0, 0, len(queue), 0, queue[0] if queue else slot, now_ns) for box, queue in enumerate(queues)
        ]
        grant = gate.decide(table, cursor, now_ns)
        if grant is not None:
            cursor = grant.cursor
            if grant.tuples_max:
                waited += slot - queues[grant.outbox].popleft() + 1
                sent += 1
        backlogs = [len(queue) for queue in queues]
        most = max(most, *backlogs)
        if slot in SAMPLED:
            fairness.append(jain(backlogs))
    return SlotResult(most, waited * SLOT_US / 1000 / max(1, sent), tuple(fairness), sent, sum(map(len, queues)))
