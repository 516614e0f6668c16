"""A host that starts workers as plain processes of this machine, for tests and for measuring what Spark adds.

A worker that dies is started again, as Spark would, until the query ends.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from tailrace.coordinator.errors import WorkerLostError
from tailrace.program.boot import WorkerLocation
from tailrace.worker.main import run_worker

from .links import DelayedConnections

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from tailrace.program.boot import Boot

_POLL_S = 0.05


def _enter(boot: Boot, where: WorkerLocation, link_delay_ms: float | None) -> None:
    import faulthandler  # noqa: PLC0415 - only in the child
    import signal  # noqa: PLC0415

    faulthandler.register(signal.SIGUSR1)
    if link_delay_ms is None:
        run_worker(boot, where)
    else:
        run_worker(boot, where, partial(DelayedConnections, delay_ms=link_delay_ms))


class ProcessHost:
    """Workers as child processes; ``hosts`` lets a test give each an address of its own on loopback.

    Each is an executor of its own unless ``per_executor`` of them are to be taken for one. With ``link_delay_ms`` hosts
    of different names are nodes apart: they talk by TCP only, and so much later.
    """

    driver_host = "127.0.0.1"
    bind_host = "127.0.0.1"
    spark: Any = None

    def __init__(
        self,
        workers: int,
        *,
        hosts: list[str] | None = None,
        link_delay_ms: float | None = None,
        session: str = "",
        restarts_max: int = 20,
        per_executor: int = 1,
    ) -> None:
        self.workers = workers
        self._link_delay_ms = link_delay_ms
        self._per_executor = per_executor
        self.session = session
        self._hosts = hosts or ["127.0.0.1"] * workers
        # A fork of a server that has the imports behind it starts in a moment, and without the threads of this process.
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["tailrace.worker.main"])
        self._restarts_left = restarts_max
        self._launches = [0] * workers
        self._stopping = threading.Event()
        self._failure: Exception | None = None
        self.processes: list[BaseProcess] = []

    def launch(self, boot: Boot) -> None:
        """Start all workers and a thread that looks after them."""
        self.processes = [self._start(boot, slot) for slot in range(self.workers)]
        threading.Thread(target=self._look_after, args=(boot,), name="tailrace-processes", daemon=True).start()

    def add(self, boot: Boot, slots: list[int]) -> None:
        """Start workers for further slots."""
        for slot in slots:
            self._launches.append(0)
            self._hosts.append(self._hosts[slot % self.workers])
            self.processes.append(self._start(boot, slot))

    def _start(self, boot: Boot, slot: int) -> BaseProcess:
        self._launches[slot] += 1
        where = WorkerLocation(slot, self._launches[slot], f"process-{slot // self._per_executor}", self._hosts[slot])
        process = self._context.Process(target=_enter, args=(boot, where, self._link_delay_ms), daemon=True)
        process.start()
        return process

    def _look_after(self, boot: Boot) -> None:
        while not self._stopping.wait(_POLL_S):
            for slot, process in enumerate(self.processes):
                if process.exitcode not in {None, 0}:
                    if not self._restarts_left:
                        self._failure = WorkerLostError(f"Worker {slot} died again and again.", "Look at its output.")
                        return
                    self._restarts_left -= 1
                    self.processes[slot] = self._start(boot, slot)

    def failure(self) -> Exception | None:
        """Why workers are no longer started again."""
        return self._failure

    def stop(self, timeout_s: float) -> None:
        """Wait for the workers to end, then end them."""
        self._stopping.set()
        deadline_s = time.monotonic() + timeout_s
        for process in self.processes:
            process.join(max(0.0, deadline_s - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()

    def describe(self) -> str:
        """One line on the host."""
        return f"{self.workers} plain processes"
