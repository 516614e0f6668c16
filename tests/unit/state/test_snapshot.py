"""The format of a task's state: read as it was written, and refused by name when it cannot be."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.state import snapshot
from tailrace.state.errors import SnapshotError, SnapshotVersionError
from tailrace.state.snapshot import (
    DeduplicatorSnapshot,
    GenerationSnapshot,
    KeyedPart,
    OperatorSnapshot,
    SourceSnapshot,
    TaskSnapshot,
)

OFFSETS = st.dictionaries(st.integers(0, 2**16), st.integers(0, 2**47 - 1), max_size=3)
BYTES = st.binary(max_size=24)
KEYED = st.builds(
    KeyedPart,
    BYTES,
    BYTES,
    BYTES,
    st.none() | st.lists(st.integers(0, 1023), max_size=4),
    st.none() | st.integers(0, 2**63),
)
OPERATORS = st.builds(
    OperatorSnapshot, st.lists(KEYED, max_size=2), timers=st.lists(BYTES, max_size=1), user=st.none() | BYTES
)
GENERATIONS = st.builds(GenerationSnapshot, OFFSETS, BYTES, st.booleans(), BYTES)
INCARNATIONS = st.integers(0, 2**64 - 1)
DEDUPLICATORS = st.builds(
    DeduplicatorSnapshot,
    OFFSETS,
    st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 9), INCARNATIONS), max_size=2),
    st.lists(GENERATIONS, max_size=3),
)
SNAPSHOTS = st.builds(
    TaskSnapshot,
    st.integers(0, 99),
    st.integers(0, 99),
    st.dictionaries(st.text(max_size=4), OPERATORS, max_size=2),
    st.none() | DEDUPLICATORS,
    st.none() | st.builds(SourceSnapshot, OFFSETS, OFFSETS),
    st.booleans(),
)


@given(SNAPSHOTS)
def test_a_snapshot_is_read_as_it_was_written(taken):
    assert snapshot.decode(snapshot.encode(taken), TaskSnapshot) == taken


@given(SNAPSHOTS, st.data())
def test_one_that_was_cut_off_is_no_snapshot(taken, data):
    written = snapshot.encode(taken)
    end = data.draw(st.integers(0, len(written) - 1))
    with pytest.raises(SnapshotError):
        snapshot.decode(written[:end], TaskSnapshot)


def test_a_newer_format_is_refused_by_name():
    written = bytearray(snapshot.encode(TaskSnapshot(0, 0)))
    written[3:5] = (snapshot.FORMAT_VERSION + 1).to_bytes(2, "little")
    with pytest.raises(SnapshotVersionError, match=f"format version {snapshot.FORMAT_VERSION + 1}"):
        snapshot.decode(bytes(written), TaskSnapshot)


def test_a_field_that_was_added_later_is_left_alone():
    class Later(TaskSnapshot, frozen=True):
        more: int = 0

    assert snapshot.decode(snapshot.encode(Later(1, 2, more=3)), TaskSnapshot) == TaskSnapshot(1, 2)


@pytest.mark.parametrize("data", [b"", b"TR", b"TRX\x01\x00\x80", msgspec.msgpack.encode({"stage": 1})])
def test_other_bytes_are_no_snapshot(data):
    with pytest.raises(SnapshotError, match="no snapshot"):
        snapshot.decode(data, TaskSnapshot)
