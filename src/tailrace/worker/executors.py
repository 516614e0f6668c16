"""Where a task's user code runs when it must not hold up its worker: a thread of its own, or an event loop.

The loop hands pieces of work in and gets them back through one queue, ringing its bell; the pieces touch no state of
the brain while they are out.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .task import Work


def run_piece(work: Work) -> None:
    """Run a piece of work here and now; an error is kept in it."""
    cpu_begun = time.thread_time_ns() if work.sampled else 0
    begun = time.perf_counter_ns()
    try:
        work.run()
    except BaseException as error:  # noqa: BLE001 - handed to the brain, which ends the query
        work.error = error
    work.took_ns = time.perf_counter_ns() - begun
    if work.sampled:
        work.cpu_ns = time.thread_time_ns() - cpu_begun


class Returns:
    """Finished pieces on their way back to the loop."""

    def __init__(self, bell: Callable[[], None]) -> None:
        self._done: deque[Work] = deque()
        self._bell = bell

    def __len__(self) -> int:
        return len(self._done)

    def put(self, work: Work) -> None:
        """Bring a piece back, from any thread."""
        self._done.append(work)
        self._bell()

    def take(self) -> list[Work]:
        """All pieces that came back."""
        taken = []
        while self._done:
            taken.append(self._done.popleft())
        return taken


class TaskThread:
    """A thread that runs one task's pieces in order. It may be a thread that already runs: the one the task blocked."""

    def __init__(self, returns: Returns, name: str, *, start: bool = True) -> None:
        self._pieces: SimpleQueue[Work | None] = SimpleQueue()
        self._returns = returns
        if start:
            threading.Thread(target=self.serve, name=f"tailrace-{name}", daemon=True).start()

    def submit(self, work: Work) -> None:
        """Let a piece be run after those before it."""
        self._pieces.put(work)

    def stop(self) -> None:
        """End the thread after the piece at hand."""
        self._pieces.put(None)

    def serve(self) -> None:
        """Run pieces until stopped."""
        while (work := self._pieces.get()) is not None:
            run_piece(work)
            self._returns.put(work)


class AsyncThread:
    """An event loop in a thread, for operators that are ``async def``; all of a worker's share it."""

    def __init__(self, returns: Returns) -> None:
        self._returns = returns
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="tailrace-async", daemon=True).start()

    def submit(self, work: Work) -> None:
        """Let a piece be awaited beside the others."""
        asyncio.run_coroutine_threadsafe(self._run(work), self._loop)

    async def _run(self, work: Work) -> None:
        begun = time.perf_counter_ns()
        try:
            await work.run_async()
        except BaseException as error:  # noqa: BLE001 - handed to the brain, which ends the query
            work.error = error
        work.took_ns = time.perf_counter_ns() - begun
        self._returns.put(work)

    def stop(self) -> None:
        """End the event loop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
