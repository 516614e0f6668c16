"""Tells a call that blocks from one that is merely slow to get the processor, so that the loop can be handed on.

The watchdog looks at the call the loop is in. A thread that sleeps in a lookup uses no processor time at all; one on a
crowded machine uses some, or stands ready to. A single value that computes for long is handed on too: then at least
Python's lock is shared.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.worker.execution.task import Work

#: Processor time below which a thread counts as having stood still.
_STILL_NS = 200_000


class LoopThread:
    """The thread that has the loop; asked for once, because asking is a system call."""

    __slots__ = ("ident", "native_id", "thread")

    def __init__(self) -> None:
        self.thread = threading.current_thread()
        self.ident = threading.get_ident()
        self.native_id = threading.get_native_id()


class Call:
    """User code being run by the loop."""

    __slots__ = ("thread", "work")

    def __init__(self, work: Work, thread: LoopThread) -> None:
        self.work = work
        self.thread = thread


class CallWatch:
    """Looks at the current call once per period; stuck when it has stood still through a whole one.

    One that computes for longer than ``limit_s`` is handed on in any case: the worker must stay able to answer.
    """

    def __init__(self, period_ms: int, limit_s: float) -> None:
        self._period_ns = period_ms * 1_000_000
        self._limit_ns = int(limit_s * 1e9)
        self._seen: Call | None = None
        self._first_cpu_ns = 0
        self._last_cpu_ns = 0

    def stuck(self, call: Call) -> bool:
        """Whether the call should go on without the loop; asked once per period."""
        cpu_ns = _thread_cpu_ns(call.thread.ident)
        if self._seen is not call:
            self._seen, self._first_cpu_ns, self._last_cpu_ns = call, cpu_ns, cpu_ns
            return False
        still = cpu_ns - self._last_cpu_ns < _STILL_NS
        self._last_cpu_ns = cpu_ns
        if call.work.begun_ns and time.perf_counter_ns() - call.work.begun_ns > self._limit_ns:
            return True
        if still:
            return not _ready_to_run(call.thread.native_id)
        return len(call.work.batch) <= 1 and cpu_ns - self._first_cpu_ns > self._period_ns


def _thread_cpu_ns(ident: int) -> int:
    """Processor time of a thread; 0 where the system cannot tell, so that a long call always counts as still."""
    clock_id = getattr(time, "pthread_getcpuclockid", None)
    return 0 if clock_id is None else time.clock_gettime_ns(clock_id(ident))


def _ready_to_run(native_id: int) -> bool:
    """Whether the thread would run if it were given a processor."""
    try:
        stat = Path(f"/proc/self/task/{native_id}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] == "R"
