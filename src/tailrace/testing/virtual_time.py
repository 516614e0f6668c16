"""An asyncio event loop on a clock that the test moves: ``asyncio.sleep`` passes in no time and in a fixed order.

The in-process runner awaits ``async def`` operators with it, a turn at a time, in its own thread.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from tailrace.clock import Clock
    from tailrace.worker.execution.task import Work

_NS_PER_S = 1_000_000_000
#: Real time given to what waits for the outside world: a thread pool, a socket.
_OUTSIDE_WAIT_S = 0.001
#: Turns that a cancelled operator gets to clean up.
_CANCEL_TURNS_MAX = 100


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is a Clock's."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._virtual = clock
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timers_set = 0

    def time(self) -> float:
        """Tell the clock's time in seconds."""
        return self._virtual.now_ns() / _NS_PER_S

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Set a timer, and note it so that the runner knows how far to move the clock."""
        handle = super().call_at(when, callback, *args, context=context)
        self._timers_set += 1
        heapq.heappush(self._timers, (when, self._timers_set, handle))
        return handle

    def next_timer_ns(self) -> int | None:
        """When the next timer is due on the clock; None if none is set."""
        while self._timers and (self._timers[0][2].cancelled() or self._timers[0][0] < self.time()):
            heapq.heappop(self._timers)
        # Rounded up: at the whole nanosecond before it the timer would not fire.
        return int(self._timers[0][0] * _NS_PER_S) + 1 if self._timers else None

    def turn(self) -> None:
        """Run what can run now."""
        self.call_soon(self.stop)
        self.run_forever()


class AwaitedWork:
    """Pieces of ``async def`` operators under way; the in-process counterpart of a worker's event-loop thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop: VirtualLoop | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._done: list[Work] = []

    def submit(self, work: Work) -> None:
        """Let a piece be awaited beside the others."""
        self._loop = self._loop or VirtualLoop(self._clock)
        task = self._loop.create_task(self._run(work))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _run(self, work: Work) -> None:
        begun_ns = self._clock.now_ns()
        try:
            await work.run_async()
        except Exception as error:  # noqa: BLE001 - handed to the brain, which ends the query
            work.error = error
        work.took_ns = max(1, self._clock.now_ns() - begun_ns)
        self._done.append(work)

    def take(self) -> list[Work]:
        """Run what can run now; give the pieces that are done."""
        if self._loop is not None and self._open:
            self._loop.turn()
        done, self._done = self._done, []
        return done

    def next_timer_ns(self) -> int | None:
        """How far the clock must move for a piece to go on; waits a moment for pieces that no timer will wake."""
        if self._loop is None or not self._open:
            return None
        due_ns = self._loop.next_timer_ns()
        if due_ns is None:
            time.sleep(_OUTSIDE_WAIT_S)
        return due_ns

    def close(self) -> None:
        """Cancel what is left and close the event loop."""
        if self._loop is None:
            return
        for task in self._open:
            task.cancel()
        for _ in range(_CANCEL_TURNS_MAX):
            if self._open:
                self._loop.turn()
        self._loop.close()
