"""Which executors will straggle in the next batch: quartile classes and their transitions (section 3.2 of the paper).

Called by the paper's plan and shown in the status. Pure. It loses where all executors are alike: a quartile always
holds somebody, so noise makes stragglers of good executors.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import isclose
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class NodeClass(str, Enum):
    """The paper's three groups of nodes."""

    STRAGGLER = "straggler"
    MEDIAN = "median"
    FASTER = "faster"


@dataclass(frozen=True, slots=True)
class Degradation:
    """By how much a node's input must change before it changes its group (FTM and MTS)."""

    faster_to_median: float
    median_to_straggler: float


def classify(finish_ms: Mapping[str, float]) -> dict[str, NodeClass]:
    """Sort nodes by finish time: the slowest quarter straggles, the quickest quarter helps, the rest does neither.

    Equal finish times share a class, so that equal executors are never treated differently; with fewer than four
    executors each outer group still holds one.
    """
    ordered = sorted(finish_ms.values(), reverse=True)
    if not ordered:
        return {}
    quarter = max(1, len(ordered) // 4)
    slow_from, fast_to = ordered[quarter - 1], ordered[-quarter]

    def of(value_ms: float) -> NodeClass:
        slow, fast = value_ms >= slow_from, value_ms <= fast_to
        if slow == fast:
            return NodeClass.MEDIAN
        return NodeClass.STRAGGLER if slow else NodeClass.FASTER

    return {executor: of(value_ms) for executor, value_ms in finish_ms.items()}


def degradation(finish_ms: Mapping[str, float], classes: Mapping[str, NodeClass]) -> Degradation:
    """FTM = median of the median group over that of the fasters; MTS = that of the stragglers over the median group's.

    An empty group is stood in for by the median of all nodes.
    """
    overall_ms = median(finish_ms.values())

    def group_ms(wanted: NodeClass) -> float:
        values = [finish_ms[executor] for executor, found in classes.items() if found is wanted]
        return median(values) if values else overall_ms

    middle_ms = group_ms(NodeClass.MEDIAN)
    return Degradation(
        faster_to_median=max(1.0, middle_ms / group_ms(NodeClass.FASTER)),
        median_to_straggler=max(1.0, group_ms(NodeClass.STRAGGLER) / middle_ms),
    )


def transition(initial: NodeClass, input_ratio: float, by: Degradation) -> NodeClass:
    """Table 1: the class in the next batch when the node's input changes by ``input_ratio``."""
    if isclose(input_ratio, 1.0, rel_tol=1e-9):
        # Where a group is no slower than its neighbour (FTM or MTS of 1) the table would move nodes on no change.
        return initial
    ftm, mts = by.faster_to_median, by.median_to_straggler
    median_from, straggler_above = {
        NodeClass.STRAGGLER: (1 / (ftm * mts), 1 / mts),
        NodeClass.MEDIAN: (1 / ftm, mts),
        NodeClass.FASTER: (ftm, ftm * mts),
    }[initial]
    if input_ratio > straggler_above:
        return NodeClass.STRAGGLER
    if input_ratio < median_from:
        return NodeClass.FASTER
    return NodeClass.MEDIAN
