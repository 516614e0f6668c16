from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.checkpoint import sealing
from tailrace.checkpoint.errors import CheckpointCorruptError, CheckpointVersionError


@given(st.binary(max_size=300))
def test_what_is_sealed_is_what_is_unsealed(content):
    assert bytes(sealing.unseal(sealing.PART, sealing.seal(sealing.PART, content), "parts/1")) == content


@given(st.binary(max_size=40), st.data())
def test_any_flipped_bit_is_found(content, data):
    sealed = bytearray(sealing.seal(sealing.PART, content))
    at = data.draw(st.integers(0, len(sealed) - 1))
    sealed[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises((CheckpointCorruptError, CheckpointVersionError), match="parts/1"):
        sealing.unseal(sealing.PART, bytes(sealed), "parts/1")


@given(st.binary(max_size=40), st.data())
def test_any_cut_is_found(content, data):
    sealed = sealing.seal(sealing.PART, content)
    with pytest.raises(CheckpointCorruptError):
        sealing.unseal(sealing.PART, sealed[: data.draw(st.integers(0, len(sealed) - 1))], "parts/1")


def test_another_kind_is_refused():
    with pytest.raises(CheckpointCorruptError, match="kind 1 where kind 2"):
        sealing.unseal(sealing.PART, sealing.seal(sealing.MANIFEST, b""), "parts/1")


def test_a_newer_format_is_named(monkeypatch):
    monkeypatch.setattr(sealing, "FORMAT_VERSION", 7)
    sealed = sealing.seal(sealing.PART, b"x")
    monkeypatch.undo()
    with pytest.raises(CheckpointVersionError, match="format 7; this release reads formats up to 1"):
        sealing.unseal(sealing.PART, sealed, "parts/1")
