"""The bare loop as an arm: one process, no engine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tailrace_bench.errors import ArmError

from .child import ChildArm

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.metrics.histogram import Histogram


class BareArm(ChildArm):
    """Only its saturated speed is of interest."""

    def __init__(self, kind: str, folder: Path) -> None:
        super().__init__("bare_loop", kind, folder, 1)

    def open(self) -> None:
        """Start the loop."""
        counts = str(self.counts_files()[0])
        self.run([[sys.executable, "-m", "peers.bare_loop", self.kind, self.panel.path, str(self.values_path), counts]])

    def latencies(self, records: int) -> Histogram:
        """There are none: it neither queues nor waits."""
        raise ArmError(f"The bare loop measures no latencies, and {records:,} were asked for.", "Ask an engine.")
