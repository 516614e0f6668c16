"""Names user code that does not come back: operator, task, how long, and where in the user's code it is.

The watchdog of a worker's loop looks here, because the loop itself may be what is stuck. Costs nothing per piece of
work: pieces carry the time they were begun, and stacks are taken only of those that are overdue. Nothing here raises.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

from tailrace import protocol
from tailrace.program.errors import TRACEBACK_CHARS_MAX, is_ours
from tailrace.reports import StuckCall

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType

    from tailrace.worker.execution.task import Task, Work

    from .brain import WorkerBrain
    from .control import ControlLine
    from .loop import WorkerLoop

_NS_PER_S = 1_000_000_000
_EVERY_S = 1.0
#: Rows that one worker reports; the longest first.
ROWS_MAX = 8
#: What a loop is called that is stuck in code of no operator.
NO_OPERATOR = "(the worker)"


class StuckWatch:
    """Tells the coordinator, once a second while there is anything to tell."""

    def __init__(self, loop: WorkerLoop, brain: WorkerBrain, control: ControlLine, after_s: float) -> None:
        self._loop = loop
        self._brain = brain
        self._control = control
        self._after_s = after_s
        self._next_s = 0.0
        self._told = False
        self._sequence = 0

    def look(self, now_s: float) -> None:
        """Look if it is time to; called by the watchdog."""
        if now_s < self._next_s:
            return
        self._next_s = now_s + min(_EVERY_S, self._after_s / 2)
        rows = self._rows(now_s)
        if rows or self._told:
            self._told = bool(rows)
            self._sequence += 1
            with contextlib.suppress(OSError):  # the loop finds a broken connection by itself
                self._control.send(protocol.Stuck(self._sequence, tuple(rows)))

    def _rows(self, now_s: float) -> list[StuckCall]:
        rows = pieces_out(self._loop, self._brain.tasks, self._after_s)
        still_s = now_s - self._loop.round_s
        if still_s > self._after_s and not self._loop.in_a_call:
            operator, task = self._brain.at_hand or (NO_OPERATOR, -1)
            rows.append(_call(operator, task, still_s, stack_of_thread(self._loop.loop_ident)))
        return sorted(rows, key=lambda row: -row.seconds)[:ROWS_MAX]


def pieces_out(loop: WorkerLoop, tasks: Iterable[Task], after_s: float) -> list[StuckCall]:
    """The pieces of work that were begun so long ago and have not come back."""
    now_ns = time.perf_counter_ns()
    found = []
    for task in list(tasks):
        for work in list(task.pieces):
            seconds = (now_ns - work.begun_ns) / _NS_PER_S
            if work.begun_ns and not work.took_ns and seconds > after_s:
                found.append(_call(task.chain.at.operator, task.index, seconds, _stack(loop, work)))
    return found


def told_at_end(loop: WorkerLoop, brain: WorkerBrain, left_behind: set[Task]) -> None:
    """Tell of user code that has not come back although the worker ends."""
    for row in pieces_out(loop, left_behind, 0.0):
        brain.log(
            logging.ERROR,
            row.operator,
            row.task,
            f"has not come back for {row.seconds:.1f} s while the query ends; its close() is not called.\n{row.stack}",
        )


def _call(operator: str, task: int, seconds: float, stack: str) -> StuckCall:
    return StuckCall(operator, task, round(seconds, 1), stack)


def _stack(loop: WorkerLoop, work: Work) -> str:
    if work.awaited is not None and not getattr(work.awaited, "cr_running", False):
        return stack_of_awaited(work.awaited)
    ident = loop.thread_of(work) if work.awaited is None else loop.async_ident
    return "" if ident is None else stack_of_thread(ident)


def stack_of_thread(ident: int) -> str:
    """Where a thread is, in the user's code."""
    frame = sys._current_frames().get(ident)  # noqa: SLF001 - the documented way to another thread's stack
    return "" if frame is None else _formatted(traceback.extract_stack(frame))


def stack_of_awaited(awaited: Any) -> str:
    """Where a coroutine waits: its own frame, and those of what it awaits."""
    frames: list[tuple[FrameType, int]] = []
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None:
            frames.append((frame, frame.f_lineno))
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return _formatted(traceback.StackSummary.extract(iter(frames)))


def _formatted(stack: traceback.StackSummary) -> str:
    """The user's part of a stack: what lies below the last frame of ours and of ``threading``, the innermost last."""
    above = [at for at, frame in enumerate(stack) if is_ours(frame.filename) or frame.filename == threading.__file__]
    inner = [at for at in above if at < len(stack) - 1 and at + 1 not in above]
    users = list(stack)[inner[0] + 1 :] if inner else list(stack)
    return "".join(traceback.format_list(users))[-TRACEBACK_CHARS_MAX:].rstrip()
