"""How far measured values lie apart: the spread in the rows of every bench. Pure."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def quartile_distance(values: Sequence[float]) -> float:
    """How far the middle half of the values reaches; 0 for fewer than two."""
    if len(values) < 2:  # noqa: PLR2004
        return 0.0
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return third - first
