"""Where a task's user code runs when it must not hold up its worker: a thread of its own, or an event loop.

The loop hands pieces of work in and gets them back through one queue, waking it; the pieces touch no state of
the brain while they are out.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.worker.execution.task import Task, Work

#: The task whose ``async def`` operator runs; what it starts with ``to_thread`` has it too.
AWAITED_TASK: contextvars.ContextVar[Task | None] = contextvars.ContextVar("tailrace_task", default=None)


#: How long awaited calls have to take note that they were cancelled.
_CANCEL_S = 1.0


def run_piece(work: Work) -> None:
    """Run a piece of work here and now; an error is kept in it."""
    cpu_begun = time.thread_time_ns() if work.sampled else 0
    begun = work.begun_ns = time.perf_counter_ns()
    try:
        work.run()
    except BaseException as error:  # noqa: BLE001 - handed to the brain, which ends the query
        work.error = error
    work.took_ns = time.perf_counter_ns() - begun
    if work.sampled:
        work.cpu_ns = time.thread_time_ns() - cpu_begun


class Returns:
    """Finished pieces on their way back to the loop."""

    def __init__(self, wakeup: Callable[[], None]) -> None:
        self._done: deque[Work] = deque()
        self._wakeup = wakeup
        self._ended = False

    def __len__(self) -> int:
        return len(self._done)

    def put(self, work: Work) -> None:
        """Bring a piece back, from any thread."""
        self._done.append(work)
        if not self._ended:
            self._wakeup()

    def end(self) -> None:
        """Wake it no more: the loop has ended, and what its wakeup stands on goes."""
        self._ended = True

    def take(self) -> list[Work]:
        """All pieces that came back."""
        taken = []
        while self._done:
            taken.append(self._done.popleft())
        return taken


class TaskThread:
    """A thread that runs one task's pieces in order. It may be a thread that already runs: the one the task blocked."""

    def __init__(self, returns: Returns, name: str, thread: threading.Thread | None = None) -> None:
        self._pieces: SimpleQueue[Work | None] = SimpleQueue()
        self._returns = returns
        if thread is None:
            thread = threading.Thread(target=self.serve, name=f"tailrace-{name}", daemon=True)
            thread.start()
        self.thread: threading.Thread = thread

    def submit(self, work: Work) -> None:
        """Let a piece be run after those before it."""
        self._pieces.put(work)

    def stop(self) -> None:
        """End the thread after the piece at hand."""
        self._pieces.put(None)

    def join(self, timeout_s: float) -> bool:
        """Wait for the end of a thread that was stopped; tells whether it has come."""
        self.thread.join(timeout_s)
        return not self.thread.is_alive()

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
        self.thread = threading.Thread(target=self._loop.run_forever, name="tailrace-async", daemon=True)
        self.thread.start()

    def submit(self, work: Work) -> None:
        """Let a piece be awaited beside the others."""
        asyncio.run_coroutine_threadsafe(self._run(work), self._loop)

    async def _run(self, work: Work) -> None:
        AWAITED_TASK.set(work.task)
        begun = work.begun_ns = time.perf_counter_ns()
        try:
            await work.run_async()
        except BaseException as error:  # noqa: BLE001 - handed to the brain, which ends the query
            work.error = error
        work.took_ns = time.perf_counter_ns() - begun
        self._returns.put(work)

    def stop(self) -> None:
        """Cancel what is still awaited and end the event loop."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop)

    async def _end(self) -> None:
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest, timeout=_CANCEL_S)
        self._loop.stop()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end of the event loop; tells whether it has come."""
        self.thread.join(timeout_s)
        if not self.thread.is_alive():
            self._loop.close()
        return not self.thread.is_alive()
