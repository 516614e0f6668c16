"""Knobs for experiments: make a worker k times slower, pause it, delay the links to it, while the query runs.

An operator that stands for work waits with ``knobs.wait(seconds)`` instead of computing: the wait is scaled by the
slowness of the worker it happens in and held up while that worker is paused. Knobs are turned in the process that made
them and felt at once by all workers of this machine, through a small file they share; links are delayed by a proxy.

    with chaos.Knobs() as knobs:
        flow.source(...).map(lambda v: knobs.wait(0.002) or v, tasks=5, blocking=True)
        knobs.slow(worker=3, times=2.0)
        knobs.pause_at_random(range(5), every_s=5.0, lasting_s=(0.02, 0.1), seed=1)
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import mmap
import os
import random
import struct
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tailrace.protocol import Register
from tailrace.worker.main import SLOT_VARIABLE

from .proxy import FaultyProxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from tailrace.clock import Clock
    from tailrace.coordinator.brain import CoordinatorBrain
    from tailrace.protocol import FromWorker

WORKERS_MAX = 256
_NS_PER_S = 1_000_000_000
#: Per worker: how many times slower, and until when it stands still.
_ROW = struct.Struct("<dq")
_MAPS: dict[str, mmap.mmap] = {}


def _map_of(path: str) -> mmap.mmap:
    """The file in this process's memory; opened once, since waits are short."""
    found = _MAPS.get(path)
    if found is None:
        with open(path, "r+b") as file:  # noqa: PTH123 - mmap wants the descriptor
            found = _MAPS[path] = mmap.mmap(file.fileno(), WORKERS_MAX * _ROW.size)
    return found


def random_pauses(
    workers: Sequence[int], every_s: float, lasting_s: tuple[float, float], seed: int
) -> Iterator[tuple[float, int, float]]:
    """When which worker is paused for how long: one drawn at random, at a random moment of each turn.

    There are as many turns in ``every_s`` as workers. Moments drawn without turns leave gaps of several times their
    mean, and a short experiment would tell of the gaps rather than of the pauses.
    """
    rng = random.Random(seed)  # noqa: S311 - it chooses pauses, nothing secret
    turn_s = every_s / len(workers)
    for turn in itertools.count():
        yield (turn + rng.random()) * turn_s, rng.choice(workers), rng.uniform(*lasting_s)


class Knobs:
    """Slowness and pauses per worker. Travels inside functions as a path; only its maker should turn it."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._now_ns: Callable[[], int] = time.monotonic_ns if clock is None else clock.now_ns
        handle, self.path = tempfile.mkstemp(prefix="tailrace-knobs-")
        with os.fdopen(handle, "wb") as file:
            file.write(_ROW.pack(1.0, 0) * WORKERS_MAX)
        self._calmed = threading.Event()
        self._pausing: list[threading.Thread] = []

    def __getstate__(self) -> dict[str, str]:
        return {"path": self.path}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop pausing and take the file away; workers that still wait go on with what they have mapped."""
        self.calm()
        Path(self.path).unlink(missing_ok=True)

    # -- turning -------------------------------------------------------------------------------------------------

    def slow(self, worker: int, times: float) -> None:
        """Make a worker's waits so many times longer; 1 is as fast as usual."""
        _, until_ns = _ROW.unpack_from(_map_of(self.path), worker * _ROW.size)
        _ROW.pack_into(_map_of(self.path), worker * _ROW.size, times, until_ns)

    def pause(self, worker: int, seconds: float) -> None:
        """Hold a worker's waits up for a while from now on."""
        times, _ = _ROW.unpack_from(_map_of(self.path), worker * _ROW.size)
        until_ns = self._now_ns() + int(seconds * _NS_PER_S)
        _ROW.pack_into(_map_of(self.path), worker * _ROW.size, times, until_ns)

    def pause_at_random(
        self, workers: Sequence[int], *, every_s: float, lasting_s: tuple[float, float], seed: int = 0
    ) -> None:
        """Pause the workers now and then until calmed: each every so often on average, for a time in between."""
        thread = threading.Thread(
            target=self._pause_on, args=(list(workers), every_s, lasting_s, seed), name="tailrace-chaos", daemon=True
        )
        self._pausing.append(thread)
        thread.start()

    def _pause_on(self, workers: list[int], every_s: float, lasting_s: tuple[float, float], seed: int) -> None:
        began_s = time.monotonic()
        for at_s, worker, seconds in random_pauses(workers, every_s, lasting_s, seed):
            if self._calmed.wait(max(0.0, began_s + at_s - time.monotonic())):
                return
            self.pause(worker, seconds)

    def calm(self) -> None:
        """Cease to pause at random; slowness and pauses that have begun stay."""
        self._calmed.set()
        for thread in self._pausing:
            thread.join()
        self._pausing.clear()
        self._calmed.clear()

    # -- feeling -------------------------------------------------------------------------------------------------

    def _row(self) -> tuple[float, int]:
        slot = int(os.environ.get(SLOT_VARIABLE, "0"))
        times, until_ns = _ROW.unpack_from(_map_of(self.path), slot * _ROW.size)
        return times, until_ns

    def wait(self, seconds: float) -> None:
        """Stand for so much work of a usual worker. Use it in operators declared ``blocking=True``."""
        time.sleep(max(0.0, seconds) * self._row()[0])
        time.sleep(max(0, self._row()[1] - time.monotonic_ns()) / _NS_PER_S)

    async def wait_async(self, seconds: float) -> None:
        """Stand for so much work in an ``async def`` operator; on a fake clock if the query runs on one."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, seconds) * self._row()[0])
        await asyncio.sleep(max(0.0, self._row()[1] / _NS_PER_S - loop.time()))


@contextlib.contextmanager
def delayed_links(brain: CoordinatorBrain, workers: Sequence[int], ms: float) -> Iterator[list[FaultyProxy]]:
    """Let all that goes to some workers by TCP take longer: a proxy stands in front of each.

    Enter it before the workers register: whoever registers is introduced to the others by its proxy's address. Use
    ``Settings(transport="tcp")``, since a ring has no link to delay. Gives the proxies, whose ``delay`` may be changed.
    """
    register = brain.on_message
    proxies: list[FaultyProxy] = []
    with contextlib.ExitStack() as stack:

        def behind_a_proxy(connection: int, slot: int, message: FromWorker, now_ns: int) -> None:
            if isinstance(message, Register) and message.slot in workers:
                proxy = stack.enter_context(FaultyProxy(*message.peer.tcp))
                proxy.delay(ms)
                proxies.append(proxy)
                message = replace(message, peer=replace(message.peer, tcp=proxy.address))
            register(connection, slot, message, now_ns)

        brain.on_message = behind_a_proxy  # type: ignore[method-assign]
        try:
            yield proxies
        finally:
            del brain.on_message  # the class's own is there again
