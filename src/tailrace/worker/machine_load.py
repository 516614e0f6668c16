"""How busy the machine of a worker is, all its processes together: what a policy must know before it adds load.

Asked once per report by real workers; reads the kernel's counters where there are any.
"""

from __future__ import annotations

import os
from pathlib import Path

_STAT = Path("/proc/stat")
#: Columns of /proc/stat in which a processor does nothing: idle and waiting for a disk.
_IDLE, _IO_WAIT = 3, 4


class MachineLoad:
    """The share of all processors' time that was used between two questions."""

    def __init__(self, stat: Path = _STAT) -> None:
        self._stat = stat
        self._before = self._ticks()

    def _ticks(self) -> tuple[int, int] | None:
        try:
            line = self._stat.read_text(encoding="ascii").partition("\n")[0]
        except OSError:
            return None
        ticks = [int(each) for each in line.split()[1:9]]
        return sum(ticks) - ticks[_IDLE] - ticks[_IO_WAIT], sum(ticks)

    def since_last(self) -> float:
        """Between 0 and 1; where the kernel does not say, the number of runnable processes per processor."""
        before, self._before = self._before, self._ticks()
        if before is None or self._before is None:
            return min(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
        busy, total = (now - then for now, then in zip(self._before, before, strict=True))
        return busy / total if total else 0.0
