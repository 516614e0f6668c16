"""The topologies of the tail benches: Poisson sources, operators that wait instead of computing, Yahoo's two layouts.

Waits are scaled by the worker's speed and held up by its pauses (``testing.chaos``), so that uneven and stalling nodes
can be made on one machine. Rates are the paper's divided by a factor and service times multiplied by it, so that queues
are as full and two cores are enough; the bench says by how much.
"""

from __future__ import annotations

import random
import zlib
from typing import TYPE_CHECKING, Any

from tailrace.connect import sinks
from tailrace.topology.contracts import NO_RECORDS, Reader, Records, Source
from tailrace.topology.graph import Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.clock import Clock
    from tailrace.testing.chaos import Knobs

_NS_PER_S = 1_000_000_000
_KEPT, _OF = 4, 5
#: What a filter lets pass.
KEPT_SHARE = _KEPT / _OF


class Poisson(Source[int]):
    """Numbers at random times, so many per second from each partition, open loop; the same times for the same seed."""

    label = "poisson"
    bounded = False

    def __init__(self, per_s: float, partitions: int, seed: int) -> None:
        self._per_s = per_s
        self._partitions = partitions
        self._seed = seed

    def partitions(self) -> list[str]:
        """One per source task."""
        return [str(number) for number in range(self._partitions)]

    def open(self, partition: str, offset: int, clock: Clock) -> Reader:
        """Begin at an offset; times count from the first read."""
        return _PoissonReader(random.Random(f"{self._seed},{partition}"), self._per_s, offset, clock)  # noqa: S311


class _PoissonReader(Reader):
    finished = False

    def __init__(self, rng: random.Random, per_s: float, offset: int, clock: Clock) -> None:
        self._rng = rng
        self._per_s = per_s
        self._clock = clock
        self._next = offset
        self._due_ns: int | None = None

    def _first_due_ns(self) -> int:
        if self._due_ns is None:
            self._due_ns = self._clock.now_ns() + self._gap_ns()
        return self._due_ns

    def _gap_ns(self) -> int:
        return int(self._rng.expovariate(self._per_s) * _NS_PER_S)

    def read(self, max_records: int) -> Records:
        """What is due by now."""
        now_ns, due_ns = self._clock.now_ns(), self._first_due_ns()
        first = self._next
        dues: list[int] = []
        while due_ns <= now_ns and len(dues) < max_records:
            dues.append(due_ns)
            due_ns += self._gap_ns()
        self._due_ns = due_ns
        self._next = first + len(dues)
        return Records(range(first, self._next), list(range(first, self._next)), dues) if dues else NO_RECORDS

    def wait_s(self) -> float:
        """Until the next one is due."""
        return max(0, self._first_due_ns() - self._clock.now_ns()) / _NS_PER_S


class Service:
    """Work on one value: a wait, exponential or always the same; ``passes`` makes it a filter of four in five."""

    def __init__(self, knobs: Knobs, mean_s: float, *, fixed: bool = False, passes: bool = False) -> None:
        self._knobs = knobs
        self._mean_s = mean_s
        self._fixed = fixed
        self._passes = passes

    def __call__(self, value: Any) -> Any:
        """Wait, then let the value pass."""
        self._knobs.wait(self._mean_s if self._fixed else random.expovariate(1 / self._mean_s))
        # By the value alone: a replay has to take the same way.
        return zlib.crc32(str(value).encode()) % _OF < _KEPT if self._passes else value


def chain(
    names: Sequence[str], per_s: float, service: Callable[..., Service], *, seed: int, tasks: int = 5, sources: int = 5
) -> Topology:
    """Source, operators in a row by shuffle, and a sink; operators called filter pass four tuples in five."""
    flow = Topology("chain")
    stream = flow.source(Poisson(per_s, sources, seed), tasks=sources, name="source")
    for name in names:
        passes = name.startswith("filter")
        verb = stream.shuffle().filter if passes else stream.shuffle().map
        stream = verb(service(passes=passes), tasks=tasks, name=name, blocking=True)
    stream.shuffle().sink(sinks.discard(), tasks=sources, name="end")
    return flow


def pageload(per_s: float, service: Callable[..., Service], *, seed: int, tasks: int = 5) -> Topology:
    """Yahoo's PageLoad: source and six operators in a row, of which the last stands for the sink's work."""
    return chain(
        ("transform", "filter", "join", "filter2", "aggregate", "output"), per_s, service, seed=seed, tasks=tasks
    )


def processing(per_s: float, service: Callable[..., Service], *, seed: int, tasks: int = 5) -> Topology:
    """Yahoo's Processing: transform feeds two branches, each of which gets every tuple."""
    flow = Topology("processing")
    source = flow.source(Poisson(per_s, 5, seed), tasks=5, name="source")
    transform = source.shuffle().map(service(), tasks=tasks, name="transform", blocking=True)
    for number, names in enumerate((("pick", "join1", "output1"), ("join2", "normalize", "output2"))):
        stream = transform
        for name in names:
            stream = stream.shuffle().map(service(), tasks=tasks, name=name, blocking=True)
        stream.shuffle().sink(sinks.discard(), tasks=5, name=f"end{number}")
    return flow
