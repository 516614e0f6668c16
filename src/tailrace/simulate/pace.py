"""How fast a node works over time: its speed, slower phases, and stalls at random.

A pace tells when a piece of work that begins now is done. A phase counts by the time at which a piece begins, a stall
by the time it really takes. Stalls are drawn as far as they are asked for, in order, so that a run depends on its seed
alone.
"""

from __future__ import annotations

from bisect import bisect_right
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import NodeModel

_NS_PER_S = 1_000_000_000
_NS_PER_MS = 1_000_000


class NodeSpeed:
    """The speed of one node."""

    def __init__(self, node: NodeModel, seed: str) -> None:
        self._speed = node.speed
        self._phases = [
            (round(phase.from_s * _NS_PER_S), round(phase.to_s * _NS_PER_S), phase.factor) for phase in node.phases
        ]
        self._stalls = node.stalls
        self._random = Random(f"{seed}/stalls")  # noqa: S311 - a simulation
        self._begins_ns: list[int] = []
        self._ends_ns: list[int] = []

    def done_ns(self, now_ns: int, work_ns: float) -> int:
        """When work that takes ``work_ns`` at speed 1 is done if it begins now."""
        speed = self._speed
        for from_ns, to_ns, factor in self._phases:
            if from_ns <= now_ns < to_ns:
                speed *= factor
        end_ns = now_ns + round(work_ns / speed)
        return end_ns if self._stalls is None else self._past_stalls_ns(now_ns, end_ns)

    def _past_stalls_ns(self, now_ns: int, end_ns: int) -> int:
        self._draw_until(end_ns)
        at = bisect_right(self._ends_ns, now_ns)
        while self._begins_ns[at] < end_ns:
            end_ns += self._ends_ns[at] - max(now_ns, self._begins_ns[at])
            at += 1
            self._draw_until(end_ns)
        return end_ns

    def _draw_until(self, time_ns: int) -> None:
        """Know all stalls that begin before a time, and one more."""
        if self._stalls is None:
            return
        while not self._begins_ns or self._begins_ns[-1] < time_ns:
            last_ns = self._ends_ns[-1] if self._ends_ns else 0
            begin_ns = last_ns + 1 + round(self._stalls.gap_ms.draw(self._random) * _NS_PER_MS)
            self._begins_ns.append(begin_ns)
            self._ends_ns.append(begin_ns + 1 + round(self._stalls.length_ms.draw(self._random) * _NS_PER_MS))
