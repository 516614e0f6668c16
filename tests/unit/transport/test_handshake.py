"""Both ends prove the secret; a changed bit anywhere is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.transport.handshake import (
    CONTROL,
    DATA,
    ClientHandshake,
    HandshakeError,
    Identity,
    ServerHandshake,
)

SECRET = bytes(range(32))
WHO = Identity(DATA, 7, 3)


def test_both_ends_agree_on_who_it_is():
    client, server = ClientHandshake(SECRET, WHO), ServerHandshake(SECRET, DATA)
    assert len(client.out) == server.wants_bytes
    answer = server.feed(client.out)
    assert len(answer) == client.wants_bytes
    assert not server.done
    proof = client.feed(answer)
    assert client.done
    assert len(proof) == server.wants_bytes
    assert server.feed(proof) == b""
    assert server.done
    assert server.identity == WHO


@given(st.integers(0, 10_000))
def test_a_changed_bit_of_the_hello_is_refused(bit):
    client, server = ClientHandshake(SECRET, WHO), ServerHandshake(SECRET, DATA)
    hello = bytearray(client.out)
    hello[bit // 8 % len(hello)] ^= 1 << bit % 8
    with pytest.raises(HandshakeError):
        server.feed(client.feed(server.feed(bytes(hello))))


@given(st.integers(0, 10_000))
def test_a_changed_bit_of_the_answer_is_refused(bit):
    client, server = ClientHandshake(SECRET, WHO), ServerHandshake(SECRET, DATA)
    answer = bytearray(server.feed(client.out))
    answer[bit // 8 % len(answer)] ^= 1 << bit % 8
    with pytest.raises(HandshakeError):
        client.feed(bytes(answer))
    assert not client.done


@given(st.integers(0, 255))
def test_a_changed_bit_of_the_proof_is_refused(bit):
    client, server = ClientHandshake(SECRET, WHO), ServerHandshake(SECRET, DATA)
    proof = bytearray(client.feed(server.feed(client.out)))
    proof[bit // 8] ^= 1 << bit % 8
    with pytest.raises(HandshakeError):
        server.feed(bytes(proof))
    assert not server.done


def test_nonces_are_fresh():
    hello = ClientHandshake(SECRET, WHO).out
    assert ClientHandshake(SECRET, WHO).out != hello
    assert ServerHandshake(SECRET, DATA).feed(hello) != ServerHandshake(SECRET, DATA).feed(hello)


def test_a_hello_for_another_purpose_is_refused():
    with pytest.raises(HandshakeError):
        ServerHandshake(SECRET, CONTROL).feed(ClientHandshake(SECRET, WHO).out)


def test_errors_do_not_show_the_secret():
    with pytest.raises(HandshakeError) as caught:
        ClientHandshake(SECRET, WHO).feed(bytes(64))
    assert SECRET.hex() not in str(caught.value)
    assert repr(SECRET) not in str(caught.value)
