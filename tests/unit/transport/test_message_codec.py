"""Messages written and read natively are those that codec and wire write and read."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.heads import batch_of
from tests.unit.transport.test_codec import VALUES, exactly

from tailrace.transport import codec, wire
from tailrace.transport import message_codec as mail

HEAD = wire.message_head(3, 9)
SIGNATURES = [b"s", b"i", b"f", b"y", b"b", b"(si)", b"()", b"x", b"(s", b"(("]
needs_native = pytest.mark.skipif(not mail.NATIVE, reason="the extension was not built")


def batches(values, tracked):
    ids = (range(len(values)), [256] * len(values), range(len(values))) if tracked else ([], [], [])
    return batch_of(values, None, *map(list, ids))


def columns(batch):
    return exactly(batch.values), batch.sizes, batch.heads


@given(st.lists(VALUES, min_size=1, max_size=5), st.booleans())
def test_a_frame_is_what_codec_and_wire_make_of_the_batch(values, tracked):
    batch = batches(values, tracked)
    payload = codec.encode_batch(batch)
    frame = wire.frame_head(wire.DATA, 7, len(payload)) + payload
    assert mail.frame_of(7, batch) == frame
    assert mail.frame_of(7, batch, HEAD) == HEAD + frame


@pytest.mark.parametrize("opened", [mail.opened, mail.opened_py])
@given(batches_of=st.lists(st.lists(VALUES, min_size=1, max_size=5), max_size=3), tracked=st.booleans())
def test_frames_are_read_back(opened, batches_of, tracked):
    made = [batches(values, tracked) for values in batches_of]
    frames = [mail.frame_of(channel, batch) for channel, batch in enumerate(made)]
    acks = wire.frame_head(wire.ACKS, 0, 3) + b"abc"
    slot, attempt, found = opened(b"".join((HEAD, *frames, acks)))
    assert (slot, attempt) == (3, 9)
    *data, (kind, channel, content) = found
    assert (kind, channel, bytes(content)) == (wire.ACKS, 0, b"abc")
    assert [frame[:2] for frame in data] == [(wire.DATA, channel) for channel in range(len(made))]
    assert [columns(mail.batch_in(frame[2])) for frame in data] == [columns(batch) for batch in made]


@needs_native
@pytest.mark.parametrize("values", [["a"], [1], [1.5], [b"x"], [True], [("a", 1)], [("a", 1, 2.0, b"x", False)]])
def test_plain_values_go_the_native_way(values):
    frame = mail.frame_of(1, batches(values, tracked=True))
    assert type(mail.opened(HEAD + frame)[2][0][2]) is tuple


def test_pickled_data_stays_as_it_came_until_it_is_asked_for():
    frame = mail.frame_of(1, batches([{1}], tracked=True))
    ((_, _, content),) = mail.opened(HEAD + frame)[2]
    assert bytes(content) == frame[wire.FRAME_HEAD_BYTES :]


@given(
    st.sampled_from(SIGNATURES).flatmap(
        lambda sig: st.binary(max_size=40).map(lambda rest: bytes((len(sig),)) + sig + bytes(4) + b"\x92" + rest)
    )
)
def test_bytes_that_are_no_batch_are_refused_or_read_within_their_bounds(payload):
    message = HEAD + wire.frame_head(wire.DATA, 1, len(payload)) + payload
    try:
        ((_, _, content),) = mail.opened(message)[2]
        found = mail.batch_in(content)
    except (ValueError, IndexError, KeyError, struct.error):
        return
    assert len(found.heads) % 3 == 0


@given(st.data())
def test_a_batch_cut_short_is_refused(data):
    batch = batch_of([("a", 2**40, 1.5, b"x", True)] * 3, [1, 2], [1, 2], [3, 3], [4, 5])
    payload = codec.encode_batch(batch)
    cut = data.draw(st.integers(1, len(payload) - 1))
    message = HEAD + wire.frame_head(wire.DATA, 1, cut) + payload[:cut]
    with pytest.raises((ValueError, IndexError, struct.error)):
        mail.batch_in(mail.opened(message)[2][0][2])


@given(st.data())
def test_a_message_cut_short_is_refused_by_name(data):
    message = HEAD + mail.frame_of(1, batches(["a"], tracked=True))
    cut = data.draw(st.integers(0, len(message) - 1).filter(lambda at: at != len(HEAD)))
    with pytest.raises(wire.WireError):
        mail.opened(message[:cut])
