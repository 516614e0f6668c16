"""Values in memory: dealt out over partitions, resumed at any offset."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.connect.readers import read_all

from tailrace.connect import errors, sources


@given(count=st.integers(0, 20), partitions=st.integers(1, 6), offset=st.integers(0, 22), batch=st.integers(1, 8))
def test_every_value_once_from_any_offset(count, partitions, offset, batch):
    source = sources.items((f"v{number}" for number in range(count)), partitions=partitions)
    parts = source.partitions()
    assert len(parts) == partitions
    found = [read_all(source, part, offset, batch) for part in parts]
    assert all(pairs == sorted(pairs) for pairs in found)
    assert sorted(pair for pairs in found for pair in pairs) == sorted((n, f"v{n}") for n in range(offset, count))


def test_the_list_may_change_afterwards():
    values = [1]
    source = sources.items(values)
    values.append(2)
    assert read_all(source, "0") == [(0, 1)]


def test_partitions_out_of_range():
    with pytest.raises(errors.ConnectorOptionError, match="partitions must be"):
        sources.items([1], partitions=0)
