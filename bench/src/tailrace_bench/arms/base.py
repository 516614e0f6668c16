"""What every arm can do, and the two measurements that are made on it: saturated, and offered a rate.

Arms stay up for the whole bench and take turns; while one is measured the others make nothing, and those that are
processes of our own are held still.
"""

from __future__ import annotations

import contextlib
import math
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.metrics.histogram import Histogram
from tailrace_bench.errors import ArmError, WrongResultError
from tailrace_bench.flows import ITEMS_PER_RECORD, values_of
from tailrace_bench.measurement import proc
from tailrace_bench.peers.panel import LEAD_NS, Panel
from tailrace_bench.peers.work import expected, together

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable
    from pathlib import Path

_POLL_S = 0.01
_REST_S_MAX = 30.0
_LEAD_S = LEAD_NS / 1e9


@dataclass(frozen=True)
class Window:
    """What one saturated window gave."""

    records: float
    seconds: float
    cpu_s: float
    peak_bytes: int

    @property
    def per_s(self) -> float:
        """Records completed per second."""
        return self.records / self.seconds

    @property
    def cpu_s_per_million(self) -> float:
        """CPU seconds of the arm's processes for a million records."""
        return self.cpu_s / max(self.records, 1) * 1e6


class Arm(ABC):
    """One contender."""

    def __init__(self, name: str, kind: str, folder: Path, partitions: int) -> None:
        self.name = name
        #: Its settings, where a contender's best is searched for.
        self.setup = name
        self.kind = kind
        self.values = values_of(kind)
        self.partitions = partitions
        #: How many processors its processes kept busy during the last offer.
        self.cores_used = 0.0
        self.items_per_record = ITEMS_PER_RECORD[kind]
        safe = "".join(letter if letter.isalnum() else "_" for letter in name)
        self.path = folder / safe
        self.panel = Panel(f"{self.path}.panel", create=True)

    @abstractmethod
    def open(self) -> None:
        """Start, and wait until it can be steered."""

    @abstractmethod
    def pids(self) -> list[int]:
        """The processes that do its work."""

    @abstractmethod
    def latencies(self, records: int) -> Histogram:
        """Complete latencies of the records of the offer that has just come to rest."""

    @abstractmethod
    def close(self) -> list[dict[str, int]]:
        """End it and get what its sinks held."""

    def abort(self) -> None:
        """End it after a failure: what went wrong first is what the user must hear of."""
        with contextlib.suppress(Exception):
            self.close()

    def resume(self) -> None:  # noqa: B027 - optional
        """Let it run."""

    def suspend(self) -> None:  # noqa: B027 - optional
        """Hold it still, if that can be done."""

    # -- measuring -----------------------------------------------------------------------------------------------

    def saturate(self, warm_s: float, window_s: float) -> Window:
        """Let it take what it can; count in a window after a warm-up."""
        self.resume()
        self.panel.go(math.inf, _LEAD_S + warm_s + 2 * window_s + _REST_S_MAX)
        time.sleep(_LEAD_S + warm_s)
        pids = self.pids()
        cpu_s, done, began_s = proc.cpu_s(pids), self.panel.done(), time.monotonic()
        time.sleep(window_s)
        records = (self.panel.done() - done) / self.items_per_record
        seconds, cpu_s = time.monotonic() - began_s, proc.cpu_s(pids) - cpu_s
        self.panel.halt()
        self.rest()
        found = Window(records, seconds, cpu_s, proc.peak_bytes(pids))
        if not records:
            raise ArmError(
                f"{self.name} was to work for {window_s:.1f} s and finished nothing.",
                "The machine is too busy for it to run, or it hangs; look at its log.",
            )
        self.suspend()
        return found

    def offer(self, per_s: float, seconds: float) -> Histogram:
        """Offer a rate for a time, open loop, wait until all of it is done, and tell the latencies."""
        self.resume()
        before, pids = sum(self.panel.made(self.partitions)), self.pids()
        cpu_s, began_s = proc.cpu_s(pids), time.monotonic()
        _, records = self.panel.go(per_s, seconds)
        time.sleep(_LEAD_S + seconds)
        self.cores_used = (proc.cpu_s(pids) - cpu_s) / (time.monotonic() - began_s)
        self.rest(before + records)
        found = self.latencies(records)
        self.suspend()
        return found

    def rest(self, records: int = 0) -> None:
        """Wait until so many records at least are made, everything made is done, and no more is being made."""
        deadline_s = time.monotonic() + _REST_S_MAX
        before = -1
        while True:
            made = max(records, sum(self.panel.made(self.partitions))) * self.items_per_record
            if made == before == self.panel.done():
                return
            if time.monotonic() > deadline_s:
                raise ArmError(
                    f"{self.name} was to finish {made:,} items within {_REST_S_MAX:.0f} s, and had "
                    f"{self.panel.done():,} then.",
                    "Look at its log; on a busy machine the rate may be too high for it.",
                )
            before = made
            time.sleep(2 * _POLL_S)

    def check(self, parts: list[dict[str, int]]) -> None:
        """Hold its results against those of the same records worked off one after the other."""
        found = together(self.kind, parts)
        wanted = expected(self.kind, self.values, self.panel.made(self.partitions))
        if found != wanted:
            wrong = next(key for key in found.keys() | wanted.keys() if found[key] != wanted[key])
            raise WrongResultError(
                f"{self.name} counted {found[wrong]:,} of {wrong!r}, and {wanted[wrong]:,} were made.",
                "Its figures mean nothing; this is a defect.",
            )


def wait_for(reached: Callable[[], bool], seconds: float) -> bool:
    """Poll a function until it holds."""
    deadline_s = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_POLL_S)
    return True


def last_came(name: str, pairs: array[int], records: int) -> Histogram:
    """From pairs of due and arrival times of items, the latency of each record: until its last item came."""
    last: dict[int, int] = {}
    for due_ns, came_ns in zip(pairs[::2], pairs[1::2], strict=True):
        last[due_ns] = max(came_ns, last.get(due_ns, 0))
    last.pop(0, None)  # records of a saturated window are never due
    if len(last) != records:
        raise ArmError(f"{name} was to tell {records:,} latencies and told {len(last):,}.", "A defect.")
    found = Histogram()
    found.add([came_ns - due_ns for due_ns, came_ns in last.items()])
    return found
