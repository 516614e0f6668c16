"""The shared-memory ring between workers of one node, typed: its one reader, and its writers.

Workers of one node call it where ``AVAILABLE``; elsewhere ``WHY_NOT`` says why and they use Unix sockets. It touches
the files of rings only (TurboStream, section IV; the byte layout and what differs from the paper is in native/ring.h).

It loses to a plain hand-over inside one worker, which needs no encoding, and for a few very large messages, which go
through a file of their own: the ring is for many small ones.
"""

from __future__ import annotations

from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING

from .segments import RingUnavailableError, as_segment_error, check_ours

if TYPE_CHECKING:
    from ._ring import Buffer

try:
    from ._ring import Ring
except ImportError as error:
    AVAILABLE = False
    WHY_NOT = f"the native extension cannot be loaded ({error})"
else:
    AVAILABLE = True
    WHY_NOT = ""

RING_BYTES = 1 << 20
RING_BYTES_BOUND = 16 << 20
#: A ring is made no smaller than this by itself: what lies in it stays in the processor's cache.
RING_BYTES_FLOOR = 1 << 20
MESSAGES_TARGET = 100
#: A message of more than a quarter of the ring goes through a file of its own.
_LARGEST_PER_RING = 4
_UNIT_BYTES = 64
# The sizer looks now and then only: it must not cost what it saves.
_TALLY_EVERY_CALLS = 16
_LOOK_EVERY_RECORDS = 256


class Waiting(IntEnum):
    """How a consumer waits. Spinning keeps its core awake and warm, and yields it to whoever else can run."""

    FUTEX = 0
    SPIN_THEN_FUTEX = 1
    BUSY = 2


class Sizer:
    """How large a ring should be: room for a number of mean messages, and for the largest in a quarter of it.

    A ring of 50 to 100 messages is right: a smaller one makes producers wait, a larger one only lets queues grow and
    leaves the cache. Grows to the target when producers found it full, and as far as the largest message needs at once;
    shrinks when it is more than twice as large as it should be.
    """

    def __init__(self, least_bytes: int, most_bytes: int, messages_target: int = MESSAGES_TARGET) -> None:
        self._least_bytes = least_bytes
        self._most_bytes = most_bytes
        self._messages_target = messages_target
        self._records = 0
        self._bytes = 0
        self._largest_bytes = 0
        self._full_count = 0

    def note(self, records: int, payload_bytes: int, largest_bytes: int, ring_bytes: int) -> bool:
        """Count what was received; True when it is time to ask for a size."""
        self._records += records
        self._bytes += payload_bytes
        self._largest_bytes = max(self._largest_bytes, largest_bytes)
        return self._records >= _LOOK_EVERY_RECORDS or _ring_for(largest_bytes) > ring_bytes

    def size(self, ring_bytes: int, full_count: int) -> int:
        """Choose the ring's next size from its present one and how often producers have found it full."""
        for_largest_bytes = self._bounded(_ring_for(self._largest_bytes))
        for_many_bytes = self._bounded(self._messages_target * self._bytes // max(self._records, 1))
        wanted_bytes = max(for_largest_bytes, for_many_bytes)
        was_full = full_count > self._full_count
        self._records = self._bytes = 0
        self._largest_bytes //= 2  # a large one now and then should find the ring as it left it
        self._full_count = full_count
        if wanted_bytes * 2 < ring_bytes:
            return wanted_bytes
        return max(ring_bytes, wanted_bytes if was_full else for_largest_bytes)

    def _bounded(self, wanted_bytes: int) -> int:
        return min(max(wanted_bytes, self._least_bytes), self._most_bytes)


def _ring_for(message_bytes: int) -> int:
    return _LARGEST_PER_RING * _UNIT_BYTES * -(-message_bytes // _UNIT_BYTES)


class RingReader:
    """The ring of one worker: made by it, read by its loop."""

    def __init__(self, path: str, ring_bytes: int = RING_BYTES, ring_bytes_bound: int = RING_BYTES_BOUND) -> None:
        """Make the ring's file of ``ring_bytes``, which may become smaller and larger than that as messages are.

        NoSharedMemoryError: use a Unix socket instead.
        """
        bound_bytes = max(ring_bytes, ring_bytes_bound)
        self.path = path
        self.ring = _create(path, ring_bytes, bound_bytes)
        self._sizer = Sizer(min(ring_bytes, RING_BYTES_FLOOR), bound_bytes)
        self._calls = 0

    def set_waiting(self, strategy: Waiting, spin_us: int = 1000) -> None:
        """Choose how ``wait`` waits."""
        self.ring.set_waiting(int(strategy), spin_us)

    def wait(self, timeout_us: int) -> bool:
        """Wait until something is ready or it was woken; below 0 for ever. Other threads run meanwhile."""
        return self.ring.wait(timeout_us)

    def wakeup(self) -> None:
        """Wake the one who waits."""
        self.ring.wakeup()

    def receive(self, max_records: int = 64, timeout_us: int = 0, *, patient: bool = False) -> list[tuple[int, bytes]]:
        """Take what is ready, as (target task, payload), waiting for the first; empty also when it was woken.

        A ``patient`` one, whose timeout is short, is not woken by messages that can wait.
        """
        self._adapt()
        return self.ring.receive(max_records, timeout_us, patient)

    def borrow(
        self, max_records: int = 64, timeout_us: int = 0, *, patient: bool = False
    ) -> list[tuple[int, bytes | memoryview]]:
        """Like ``receive``, without copying what is large: those payloads hold until the next call to this reader."""
        self._adapt()
        return self.ring.borrow(max_records, timeout_us, patient)

    def _adapt(self) -> None:
        """Before the wait, for what came before it: behind it stands only who waits for the message."""
        self._calls += 1
        if self._calls % _TALLY_EVERY_CALLS:
            return
        ring_bytes = self.ring.ring_bytes
        if not self._sizer.note(*self.ring.tally(), ring_bytes):
            return
        size_bytes = self._sizer.size(ring_bytes, self.ring.full_count)
        if size_bytes != ring_bytes:
            with suppress(OSError):  # no memory to grow into: the present size goes on
                self.ring.resize(size_bytes)

    def close(self) -> None:
        """Unmap the ring; the folder's owner removes the file."""
        self.ring.close()


class RingWriter:
    """The way into a peer's ring."""

    def __init__(self, path: str) -> None:
        """Attach. ForeignSegmentError: not a ring of this user, version and pid namespace."""
        self.path = path
        self.ring = _attach(path)

    def send(
        self, target: int, payload: Buffer, timeout_us: int = 0, *, can_wait: bool = False, aside: bool = True
    ) -> bool:
        """Send one message; False: no room within the timeout, which is back-pressure.

        One that ``can_wait`` does not wake a receiver that said it would look up soon by itself. A receiver that is
        woken gets the sender's core for a moment (``aside``); a sender with more to send at once keeps it.
        """
        try:
            return self.ring.post(target, payload, timeout_us, can_wait, aside)
        except OSError as error:  # the file beside the ring that a large message takes
            raise as_segment_error(error, self.path) from error

    def close(self) -> None:
        """Leave the ring."""
        self.ring.close()


def _require() -> None:
    if not AVAILABLE:
        raise RingUnavailableError(
            f"The shared-memory ring was expected, found that {WHY_NOT}.",
            "Install from a wheel or with a C compiler on Linux; the setting transport='uds' does without.",
        )


def _create(path: str, ring_bytes: int, bound_bytes: int) -> Ring:
    _require()
    try:
        return Ring.create(path, ring_bytes, bound_bytes)
    except OSError as error:
        raise as_segment_error(error, path) from error


def _attach(path: str) -> Ring:
    _require()
    check_ours(path)
    try:
        return Ring.attach(path)
    except OSError as error:
        raise as_segment_error(error, path) from error
