"""From loads per executor to pieces of the input: whole rows, offsets or bytes, none lost and none twice.

Called by the planner for every source of every batch. Pure; the shim checks the outcome again before it is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .plans.base import ExecutorNode

SMALLEST = 1e-12
"""Loads that sum to less than this are nothing, and nothing is split evenly."""


class Unit(msgspec.Struct, array_like=True, frozen=True):
    """A part of a source: a range of rows, offsets or bytes that may be cut, or something opaque."""

    size: int
    cuttable: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """What one task reads: ranges ``(unit, from, to)``, and the executor it is pinned to."""

    executor: str
    ranges: tuple[tuple[int, int, int], ...]


def whole_numbers(loads: Sequence[float], total: int) -> list[int]:
    """Round loads to whole numbers that sum to ``total``, by largest remainder."""
    whole = sum(loads)
    if whole < SMALLEST:
        loads, whole = [1.0] * len(loads), float(len(loads))
    exact = [total * (load / whole) for load in loads]
    rounded = [floor(value) for value in exact]
    order = sorted(range(len(loads)), key=lambda i: (rounded[i] - exact[i], i))
    for index in order[: total - sum(rounded)]:
        rounded[index] += 1
    return rounded


def cut(
    units: Sequence[Unit], loads: Mapping[str, float], nodes: Sequence[ExecutorNode], tasks_min: int = 0
) -> list[Piece]:
    """One piece per core: opaque units go whole to where they fit best, then the cuttable line fills the rest.

    Where ``tasks_min`` asks for more tasks than there are cores, each core gets as many pieces as that takes.
    """
    per_core = max(1, ceil(tasks_min / sum(node.cores for node in nodes)))
    pieces = {node.executor: node.cores * per_core for node in nodes}
    slots = [(executor, loads[executor] / count) for executor, count in pieces.items() for _ in range(count)]
    ranges: list[list[tuple[int, int, int]]] = [[] for _ in slots]
    filled = [0.0] * len(slots)
    for index in _largest_first(units):
        best = _best_fit(filled, [load for _, load in slots], units[index].size)
        ranges[best].append((index, 0, units[index].size))
        filled[best] += units[index].size
    line = sum(unit.size for unit in units if unit.cuttable)
    wanted = [max(0.0, load - done) for (_, load), done in zip(slots, filled, strict=True)]
    lengths = whole_numbers(wanted, line)
    for slot, found in enumerate(_along_the_line(units, lengths)):
        ranges[slot].extend(found)
    return [Piece(executor, tuple(own)) for (executor, _), own in zip(slots, ranges, strict=True) if own]


def pin(units: Sequence[Unit], loads: Mapping[str, float]) -> list[Piece]:
    """Keep every partition as it is and in its order; only choose the executor it goes to."""
    executors = list(loads)
    filled = [0.0] * len(executors)
    chosen: dict[int, str] = {}
    for index in sorted(range(len(units)), key=lambda i: (-units[i].size, i)):
        best = _best_fit(filled, [loads[executor] for executor in executors], units[index].size)
        filled[best] += units[index].size
        chosen[index] = executors[best]
    return [Piece(chosen[index], ((index, 0, unit.size),)) for index, unit in enumerate(units)]


def _largest_first(units: Sequence[Unit]) -> list[int]:
    opaque = (index for index, unit in enumerate(units) if not unit.cuttable)
    return sorted(opaque, key=lambda i: (-units[i].size, i))


def _best_fit(filled: Sequence[float], targets: Sequence[float], size: int) -> int:
    """Where a unit would be done first, given what is there already and how much each may carry."""
    open_slots = [i for i, target in enumerate(targets) if target > 0] or list(range(len(targets)))
    return min(open_slots, key=lambda i: ((filled[i] + size) / (targets[i] or 1.0), i))


def _along_the_line(units: Sequence[Unit], lengths: Sequence[int]) -> Iterator[list[tuple[int, int, int]]]:
    """Walk over the cuttable units once and give each slot the next ``length`` of them."""
    line = [index for index, unit in enumerate(units) if unit.cuttable and unit.size]
    at, start = 0, 0
    for length in lengths:
        found, left = [], length
        while left:
            unit = line[at]
            taken = min(left, units[unit].size - start)
            found.append((unit, start, start + taken))
            left, start = left - taken, start + taken
            if start == units[unit].size:
                at, start = at + 1, 0
        yield found
