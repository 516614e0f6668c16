"""How a worker's loop sleeps until something comes: on a futex where there is a ring, else in the selector.

With a ring, one C thread sits in ``epoll_wait`` over the selector's own descriptor and wakes the ring when a
socket has something, so that a single futex wait covers both and no Python runs to wake Python.
"""

from __future__ import annotations

import contextlib
import ctypes
import select
import selectors
import socket
import threading
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .ring import RingReader


_PR_SET_TIMERSLACK = 29
_SLACK_NS = 1


def sharpen_timers() -> None:
    """Have the kernel end this thread's sleeps when they are due: by default it may be 50 us late to save power."""
    with contextlib.suppress(OSError, AttributeError):  # another kernel: sleeps are as sharp as they are
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, _SLACK_NS, 0, 0, 0)


class Waiter(Protocol):
    """Sleeps and is woken."""

    def wait(self, timeout_us: int, *, patient: bool) -> list[tuple[int, bytes | memoryview]]:
        """Sleep until something comes, it is woken or the time is up; gives the records it took on waking.

        A ``patient`` sleeper need not be woken by what can wait.
        """
        ...

    def wakeup(self) -> None:
        """Wake the sleeper, from any thread."""
        ...

    def close(self) -> None:
        """Let go."""
        ...


class SelectWaiter:
    """Sleeps in the selector; a socket pair carries wakeups."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._inner, self._outer = socket.socketpair()
        self._inner.setblocking(False)
        self._outer.setblocking(False)
        selector.register(self._inner, selectors.EVENT_READ, None)

    def wait(self, timeout_us: int, *, patient: bool) -> list[tuple[int, bytes | memoryview]]:
        """Sleep until a socket has something or it is woken; sockets are read by who asked."""
        del patient  # a socket wakes for everything
        try:
            # The selector would sleep for whole milliseconds; a source naps for less, and so does a link with a delay.
            select.select((self._selector.fileno(),), (), (), timeout_us / 1e6)  # type: ignore[attr-defined]
        except (AttributeError, ValueError):  # a selector without a descriptor, or one too high for this call
            self._selector.select(timeout_us / 1e6)
        with contextlib.suppress(BlockingIOError):
            self._inner.recv(4096)
        return []

    def wakeup(self) -> None:
        """Wake the sleeper."""
        with contextlib.suppress(BlockingIOError, OSError):
            self._outer.send(b"\0")

    def close(self) -> None:
        """Close the pair."""
        self._selector.unregister(self._inner)
        self._inner.close()
        self._outer.close()


class FutexWaiter:
    """Sleeps on the ring's futex; sockets wake it."""

    def __init__(self, selector: selectors.BaseSelector, reader: RingReader, records_max: int) -> None:
        self._reader = reader
        self._records_max = records_max
        self._epoll = select.epoll()
        # The selector's own epoll set is watched, so that sockets come and go without anyone telling the watcher.
        self._epoll.register(selector.fileno(), select.EPOLLIN | select.EPOLLET)  # type: ignore[attr-defined]
        self._watcher = threading.Thread(
            target=reader.ring.watch_fd, args=(self._epoll.fileno(),), name="tailrace-watch", daemon=True
        )
        self._watcher.start()

    def wait(self, timeout_us: int, *, patient: bool) -> list[tuple[int, bytes | memoryview]]:
        """Sleep until a record is there or it is woken, and take what is there.

        One call for both: Python around a wake-up costs as much as the wake-up.
        """
        return self._reader.borrow(self._records_max, timeout_us, patient=patient)

    def wakeup(self) -> None:
        """Wake the sleeper; a task's thread may come to it when all is closed, and nobody sleeps there any more."""
        with contextlib.suppress(ValueError):
            self._reader.wakeup()

    def close(self) -> None:
        """End the watching thread."""
        self._reader.ring.stop_watching()
        self._watcher.join(timeout=5)
        self._epoll.close()
