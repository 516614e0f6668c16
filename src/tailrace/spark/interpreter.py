"""Which Python executors run, and what to say where it is the wrong one.

PySpark takes ``PYSPARK_PYTHON``, else whatever ``python3`` is on the executor. Where executors are on this machine and
nobody has chosen, functions of ours run under the driver's own interpreter; elsewhere an executor that has another one
is named, with the line that sets it. Used by ``host`` and by whatever else ships functions to executors.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import threading
from typing import TYPE_CHECKING, Any

from .errors import InterpreterError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkContext

_VARIABLE = "PYSPARK_PYTHON"
#: What Spark says of a task whose Python cannot be ours.
_SIGNS = ("PYTHON_VERSION_MISMATCH", "No module named 'tailrace", "No module named 'pyspark", "Cannot run program")
_TASKS_LOOKED_AT = 50
_REASON_CHARS_MAX = 300
_lock = threading.Lock()


@contextlib.contextmanager
def driver_interpreter(context: SparkContext) -> Iterator[None]:
    """Let functions that are wrapped for Spark in here run under the driver's interpreter, where it is at hand."""
    if _VARIABLE in os.environ or not str(context.master).startswith("local"):
        yield
        return
    with _lock:
        before, context.pythonExec = context.pythonExec, sys.executable
        try:
            yield
        finally:
            context.pythonExec = before


def interpreter_error(context: SparkContext, reason: str) -> InterpreterError:
    """Name the driver's interpreter, the executors' and the line to set."""
    theirs = f"{context.pythonExec!r}" + ("" if _VARIABLE in os.environ else f" ({_VARIABLE} is not set)")
    return InterpreterError(
        f"Executors must run the driver's Python, {sys.executable} ({platform.python_version()}), or its like with "
        f"tailrace installed; they run {theirs}, and one said: {reason[:_REASON_CHARS_MAX]}",
        f'Set it before the session is made: os.environ["{_VARIABLE}"] = "{sys.executable}" (or where that environment '
        "is on the executors; docs/deploy.md says how to ship it).",
    )


def why_no_worker(context: SparkContext, group: str) -> str:
    """What Spark says of a task of a job group whose Python cannot host a worker; empty if nothing."""
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()  # noqa: SLF001 - tasks are only there
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None else ():
            for text in _errors_of(store, stage):
                found = next((line for line in text.splitlines() if any(sign in line for sign in _SIGNS)), "")
                if found:
                    return " ".join(found.split())
    return ""


def _errors_of(store: Any, stage: int) -> Iterator[str]:
    tasks = store.taskList(stage, 0, _TASKS_LOOKED_AT)
    for at in range(tasks.size()):
        error = tasks.apply(at).errorMessage()
        if error.isDefined():
            yield str(error.get())
