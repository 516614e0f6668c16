"""Reads partitions to their end, for the tests of sources."""

from __future__ import annotations

from tailrace.clock import FakeClock


def read_all(source, partition, offset=0, max_records=7, clock=None):
    """Return the (offset, value) pairs of a bounded partition."""
    reader = source.open(partition, offset, clock or FakeClock())
    found = []
    while not reader.finished:
        records = reader.read(max_records)
        assert len(records.offsets) == len(records.values) <= max_records
        found.extend(zip(records.offsets, records.values, strict=True))
    assert reader.read(max_records).values == []
    reader.close()
    return found
