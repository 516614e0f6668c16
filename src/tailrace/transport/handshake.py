"""Both ends of a new connection prove that they know the query's secret, before a byte of it is decoded.

    client                                         server
      magic 8 | purpose 1 | slot 2 | attempt 4 | nonce 32   ->
                                          <-  nonce 32 | HMAC 32 ("server")
      HMAC 32 ("client")                                    ->

Every field has a fixed place, so nothing is parsed that could grow. Each HMAC covers a label, the client's hello and
both nonces: a recorded handshake is worth nothing against a fresh nonce, and a reflected one carries the wrong label.
Sans-I/O: bytes in, bytes out; the connection does the moving and keeps the time limit.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct
from dataclasses import dataclass

from tailrace.errors import TailraceError

SECRET_BYTES = 32
NONCE_BYTES = 32
PROOF_BYTES = 32
MAGIC = b"TAILRC\x00\x01"
CONTROL = 1
DATA = 2
#: Rows of DataFrames.
INGEST = 3
#: Objects of a store that only the driver reaches.
STORE = 4
#: A peer that has not proved itself by then is cut off.
TIME_LIMIT_S = 4.0

_HELLO = struct.Struct("<8sBHI32s")


class HandshakeError(TailraceError):
    """A peer could not prove that it belongs to this query."""


@dataclass(frozen=True)
class Identity:
    """Who a peer says it is: what it wants, its slot and its attempt; covered by the proof."""

    purpose: int
    slot: int
    attempt: int


def _proof(secret: bytes, label: bytes, hello: bytes, nonce: bytes) -> bytes:
    return hmac.new(secret, label + hello + nonce, hashlib.sha256).digest()


class ClientHandshake:
    """The side that connects."""

    def __init__(self, secret: bytes, identity: Identity) -> None:
        self._secret = secret
        self._hello = _HELLO.pack(
            MAGIC, identity.purpose, identity.slot, identity.attempt, secrets.token_bytes(NONCE_BYTES)
        )
        self.out = self._hello
        self.wants_bytes = NONCE_BYTES + PROOF_BYTES
        self.done = False
        self.identity = identity

    def feed(self, data: bytes) -> bytes:
        """Take the server's answer in; give the proof to send."""
        nonce, proof = data[:NONCE_BYTES], data[NONCE_BYTES:]
        if not hmac.compare_digest(proof, _proof(self._secret, b"server", self._hello, nonce)):
            raise HandshakeError("The other end does not know this query's secret.", "Check the address it listens on.")
        self.done = True
        self.wants_bytes = 0
        return _proof(self._secret, b"client", self._hello, nonce)


class ServerHandshake:
    """The side that listens for one purpose."""

    def __init__(self, secret: bytes, purpose: int) -> None:
        self._secret = secret
        self._purpose = purpose
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._hello = b""
        self.out = b""
        self.wants_bytes = _HELLO.size
        self.done = False
        self.identity = Identity(purpose, 0, 0)

    def feed(self, data: bytes) -> bytes:
        """Take the hello in and answer it, then take the proof in."""
        if not self._hello:
            return self._answer(data)
        if not hmac.compare_digest(data, _proof(self._secret, b"client", self._hello, self._nonce)):
            raise HandshakeError("A peer could not prove this query's secret.")
        self.done = True
        self.wants_bytes = 0
        return b""

    def _answer(self, hello: bytes) -> bytes:
        magic, purpose, slot, attempt, _ = _HELLO.unpack(hello)
        if magic != MAGIC or purpose != self._purpose:
            raise HandshakeError("A peer opened with something other than this query's hello.")
        self._hello = hello
        self.identity = Identity(purpose, slot, attempt)
        self.wants_bytes = PROOF_BYTES
        return self._nonce + _proof(self._secret, b"server", hello, self._nonce)
