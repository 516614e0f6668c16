"""Messages and frames: what is written is read back, and what is no message is refused before it is used."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.transport import wire
from tailrace.transport.wire import WireError

FRAMES = st.lists(
    st.tuples(st.sampled_from(sorted(wire.KINDS)), st.integers(0, 2**32 - 1), st.binary(max_size=20)), max_size=6
)


def message_of(frames, slot=3, attempt=9):
    parts = [wire.message_head(slot, attempt)]
    for kind, channel, payload in frames:
        parts += [wire.frame_head(kind, channel, len(payload)), payload]
    return b"".join(parts)


@given(FRAMES, st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1))
def test_frames_are_read_back(frames, slot, attempt):
    message = message_of(frames, slot, attempt)
    assert wire.sender(message) == (slot, attempt)
    found = [(each.kind, each.channel, bytes(each.payload)) for each in wire.frames(message)]
    assert found == frames


@given(FRAMES.filter(bool), st.data())
def test_a_message_cut_short_is_refused(frames, data):
    message = message_of(frames)
    ends = [wire.MESSAGE_HEAD_BYTES]
    for *_, payload in frames:
        ends.append(ends[-1] + wire.FRAME_HEAD_BYTES + len(payload))
    cut = data.draw(st.integers(0, len(message) - 1).filter(lambda at: at not in ends))
    with pytest.raises(WireError):
        assert wire.sender(message[:cut]) == list(wire.frames(message[:cut]))


@given(st.binary(max_size=60))
def test_random_bytes_are_read_within_their_bounds_or_refused(data):
    try:
        wire.sender(data)
        found = list(wire.frames(data))
    except WireError:
        return
    assert all(each.kind in wire.KINDS for each in found)
    covered = wire.MESSAGE_HEAD_BYTES + sum(wire.FRAME_HEAD_BYTES + len(each.payload) for each in found)
    assert covered == len(data)


def test_an_unknown_kind_is_refused():
    message = wire.message_head(1, 1) + wire.frame_head(99, 0, 0)
    with pytest.raises(WireError, match="kind 99"):
        list(wire.frames(message))
