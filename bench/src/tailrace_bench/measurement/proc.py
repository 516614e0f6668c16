"""CPU time and memory of processes, from /proc."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def cpu_s(pids: Iterable[int]) -> float:
    """CPU seconds, user and system, that these processes have used; one that has gone counts as 0."""
    ticks = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        except OSError:
            continue
        fields = text.rpartition(")")[2].split()  # the name before it may hold blanks
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def peak_bytes(pids: Iterable[int]) -> int:
    """The most memory each of these processes has had resident, added up."""
    found = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        except OSError:
            continue
        found += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmHWM:"))
    return found * 1024
