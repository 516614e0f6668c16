"""A latency histogram of constant size that can be added to another one.

Buckets grow with the value (32 to each power of two), so a percentile is off by at most about 3 %, from nanoseconds to
hours. Workers keep one, ship it sparse, and the coordinator adds them up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.hot import count_buckets

if TYPE_CHECKING:
    from collections.abc import Mapping

_SUB_BITS = 5
_SUB = 1 << _SUB_BITS


def _middle(bucket: int) -> float:
    shift = (bucket >> _SUB_BITS) - 1
    if shift <= 0:
        return float(bucket)
    return ((bucket & (_SUB - 1)) + _SUB + 0.5) * (1 << shift)


class Histogram:
    """Counts of values in nanoseconds."""

    __slots__ = ("counts", "most", "total")

    def __init__(self, counts: Mapping[int, int] | None = None, most: int = 0, total: int = 0) -> None:
        self.counts: dict[int, int] = dict(counts or {})
        self.most = most
        self.total = total

    def __len__(self) -> int:
        return sum(self.counts.values())

    def add(self, values: list[int]) -> None:
        """Count values in; a negative one (a clock was set) counts as zero."""
        if values:
            count_buckets(self.counts, values)
            self.total += sum(values) if min(values) >= 0 else sum(value for value in values if value > 0)
            self.most = max(self.most, max(values))  # noqa: PLW3301 - a star would copy the list

    def add_many(self, value: int, count: int) -> None:
        """Count one value in so many times."""
        value = max(value, 0)
        shift = value.bit_length() - _SUB_BITS - 1
        bucket = (shift << _SUB_BITS) + (value >> shift) if shift > 0 else value
        self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.total += value * count
        self.most = max(self.most, value)

    def as_dict(self) -> dict[str, object]:
        """Plain data for a report."""
        return {"counts": self.counts, "most": self.most, "total": self.total}

    def merge(self, other: Histogram) -> None:
        """Add another histogram's counts to this one's."""
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.most = max(self.most, other.most)
        self.total += other.total

    def percentile(self, share: float) -> float:
        """The value that ``share`` (0 to 1) of all values do not exceed, in nanoseconds; 0 when empty."""
        wanted = share * len(self)
        seen = 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen >= wanted:
                return min(_middle(bucket), float(self.most))
        return float(self.most)

    @property
    def mean(self) -> float:
        """The mean in nanoseconds."""
        return self.total / max(1, len(self))
