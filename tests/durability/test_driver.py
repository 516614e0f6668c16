"""A driver that is killed: its workers leave by themselves, with nothing left behind, and the next one goes on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from tests.queries import alive, until

SHARED_MEMORY = Path("/dev/shm")
pytestmark = pytest.mark.chaos

DRIVER = textwrap.dedent(
    """
    import sys
    import tailrace as tr
    from tailrace.coordinator.query import Query
    from tailrace.testing import ProcessHost

    if __name__ == "__main__":
        flow = tr.Topology("left")
        numbers = flow.source(tr.sources.rate(1000, count=10**9))
        numbers.key_by(lambda number: number % 97).count(tasks=2).sink(tr.sinks.discard())
        every = tr.Checkpoint(sys.argv[1], every_s=0.1, standby=1)
        query = Query(flow, ProcessHost(2), tr.Policy(), tr.Settings(lease_s=5.0), every).start()
        while query._brain.checkpoints.durable is None:
            query.awaitTermination(0.05)
        print(*[member.register.pid for member in query._brain.members.values()], flush=True)
        query.awaitTermination()
    """
)


def test_workers_of_a_killed_driver_leave_with_nothing_left_behind(tmp_path):
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    temporary = Path(tempfile.mkdtemp(prefix="left-"))  # short: paths of sockets in it have little room
    segments = set(SHARED_MEMORY.iterdir())
    with subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "checkpoint")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    ) as driver:
        assert driver.stdout is not None
        workers = [int(pid) for pid in driver.stdout.readline().split()]
        assert len(workers) == 2
        assert all(map(alive, workers))
        driver.send_signal(signal.SIGKILL)
        until(lambda: not any(map(alive, workers)), "the workers' leave")
    until(lambda: not [each for each in SHARED_MEMORY.iterdir() if is_of(each, workers, segments)], "no segments")
    left = [str(each) for each in temporary.rglob("*") if any(str(pid) in each.name for pid in workers)]
    shutil.rmtree(temporary)
    assert left == []


def is_of(path, workers, before):
    """Whether a segment came during the test and is of one of these workers."""
    return path not in before and any(str(pid) in path.name for pid in workers)
