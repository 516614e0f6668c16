"""What machine a figure was measured on, and whether it is quiet enough to measure at all.

Reads /proc; ``check_quiet`` takes its samples from the caller in tests.
"""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace_bench.errors import LoadedMachineError

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLE_S = 1.0
#: Of all cores, what others may use while a bench runs.
BUSY_SHARE_MAX = 0.15
#: The load average looks a minute back, also at the bench before this one; so it only rules out a crowd.
LOAD_PER_CORE_MAX = 1.5


@dataclass(frozen=True)
class OtherLoad:
    """How busy the machine is without us."""

    cores: int
    busy_cores: float
    load_average: float


def _jiffies() -> list[int]:
    """Ticks of all cores since the start: user, nice, system, idle, iowait, irq, softirq, steal."""
    return [int(text) for text in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]


def _busy_jiffies() -> int:
    fields = _jiffies()
    idle_and_iowait = fields[3] + fields[4]
    return sum(fields) - idle_and_iowait


def stolen_s() -> float:
    """Seconds for which a core here wanted to run and the host gave its time to others, since the start."""
    return _jiffies()[7] / os.sysconf("SC_CLK_TCK")


class StolenTime:
    """What share of one core the host takes from here on."""

    def __init__(self, taken_s: Callable[[], float] = stolen_s, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._taken_s, self._clock_s = taken_s, clock_s
        self._stolen_s, self._began_s = taken_s(), clock_s()

    def share(self) -> float:
        """So far."""
        return (self._taken_s() - self._stolen_s) / max(1e-9, self._clock_s() - self._began_s)


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def sample_load(sample_s: float = SAMPLE_S, sleep: Callable[[float], None] = time.sleep) -> OtherLoad:
    """Look at the machine for a second."""
    before, began_s = _busy_jiffies(), time.monotonic()
    sleep(sample_s)
    seconds = max(1e-3, time.monotonic() - began_s)
    busy = (_busy_jiffies() - before) / os.sysconf("SC_CLK_TCK") / seconds
    return OtherLoad(cores(), busy, os.getloadavg()[0])


def check_quiet(load: OtherLoad, *, force: bool = False) -> None:
    """Refuse on a loaded machine unless told to go on."""
    crowded = load.load_average > LOAD_PER_CORE_MAX * load.cores
    if force or (load.busy_cores <= BUSY_SHARE_MAX * load.cores and not crowded):
        return
    raise LoadedMachineError(
        f"A bench needs a quiet machine: at most {BUSY_SHARE_MAX * load.cores:.2f} of {load.cores} cores busy and a "
        f"load average of at most {LOAD_PER_CORE_MAX * load.cores:.1f}; found {load.busy_cores:.2f} and "
        f"{load.load_average:.2f}.",
        "Wait for the other work to end, or pass --force and do not trust the figures.",
    )


def describe_machine(load: OtherLoad) -> dict[str, object]:
    """The machine, for the report; no names that tell whose it is."""
    return {
        "cores": load.cores,
        "cpu": _cpu_model(),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "kernel": f"{platform.system()} {platform.release()}",
        "busy_cores_before": round(load.busy_cores, 3),
        "load_average_before": round(load.load_average, 2),
    }


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name")), "")
