"""Sums up runs of several seeds: median figures of an arm, and median ratios to others, paired by seed. Pure."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def medians(figures: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each figure that all runs have."""
    names = [name for name in figures[0] if all(name in each for each in figures)]
    return {name: statistics.median(each[name] for each in figures) for name in names}


def ratios_to(
    figures: Mapping[str, Sequence[Mapping[str, float]]], arm: str, baselines: Sequence[str] | None = None
) -> dict[str, dict[str, float]]:
    """By baseline (left out: all other arms), the median ratio of each figure; what is 0 there has none."""
    ours = figures[arm]
    found = {}
    for baseline in figures if baselines is None else baselines:
        if baseline == arm or baseline not in figures:
            continue
        base = figures[baseline]
        names = [
            name for name in ours[0] if all(name in each for each in ours) and all(each.get(name) for each in base)
        ]
        found[baseline] = {
            name: statistics.median(own[name] / other[name] for own, other in zip(ours, base, strict=True))
            for name in names
        }
    return found
