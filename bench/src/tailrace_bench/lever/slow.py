"""Makes the executors of a host slow: stops them and lets them go on in a fixed rhythm (SIGSTOP, SIGCONT).

Called by the benchmark around every arm. A process that may run a quarter of the time needs four times as long, for
CPU and for short waits alike. Python workers of an executor are stopped with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

PERIOD_S = 0.1
LOOK_EVERY_S = 0.5


class Slowdown:
    """A thread that slows hosts; ``set`` says which, at any time."""

    def __init__(self) -> None:
        self._factors: dict[str, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="slowdown", daemon=True)

    def set(self, factors: dict[str, float]) -> None:
        """Slow these hosts by these factors from now on, and no others."""
        self._factors = dict(factors)

    def __enter__(self) -> Self:
        """Start."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let everything run again."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        looked_s, pids = 0.0, dict[str, list[int]]()
        while not self._ended.is_set():
            factors = self._factors
            if time.monotonic() - looked_s > LOOK_EVERY_S:
                looked_s, pids = time.monotonic(), executor_pids()
            rests = sorted((PERIOD_S * (1 - 1 / factor), host) for host, factor in factors.items())
            try:
                for _, host in rests:
                    _signal(pids.get(host, []), signal.SIGSTOP)
                began_s = time.monotonic()
                for rest_s, host in rests:
                    time.sleep(max(0.0, began_s + rest_s - time.monotonic()))
                    _signal(pids.get(host, []), signal.SIGCONT)
            finally:
                for _, host in rests:
                    _signal(pids.get(host, []), signal.SIGCONT)
            time.sleep(max(0.001, began_s + PERIOD_S - time.monotonic()))


def executor_pids() -> dict[str, list[int]]:
    """Per host the executors there, with everything they started."""
    found: dict[str, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError, ValueError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            if "--executor-id" in words and "--hostname" in words:
                host = words[words.index("--hostname") + 1]
                found.setdefault(host, []).extend(_family(int(path.parent.name)))
    return found


def _family(pid: int) -> list[int]:
    own = [pid]
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in path.read_text().split():
                own.extend(_family(int(child)))
    return own


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
