"""Complete latencies of a running query between two points in time, as histograms.

The demo and the benches look twice and take the difference; users have ``query.latency``, which covers the whole run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.metrics.histogram import Histogram

if TYPE_CHECKING:
    from tailrace.coordinator.query import Query


def latency_so_far(query: Query) -> Histogram:
    """A copy of the histogram of all complete latencies."""
    total = query._brain.book.latency_total  # noqa: SLF001 - progress reports have percentiles only
    return Histogram(total.counts, total.most, total.total)


def since(before: Histogram, now: Histogram) -> Histogram:
    """What has come between two copies; its maximum is that of the whole run."""
    counts = {bucket: count - before.counts.get(bucket, 0) for bucket, count in now.counts.items()}
    return Histogram({bucket: count for bucket, count in counts.items() if count}, now.most, now.total - before.total)
