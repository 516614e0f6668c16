"""Workers, executors and drivers on Spark that are killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests import sparks
from tests.queries import PATIENT, alive, all_open, completed, ended, ending, executor_of, parent, pids, until

import tailrace as tr
from tailrace.coordinator.errors import StateLostError
from tailrace.transport import reaping

pytestmark = [pytest.mark.chaos, pytest.mark.spark]
DRIVER = Path(__file__).with_name("driver.py")


@pytest.mark.timeout(400)
def test_every_id_arrives_when_workers_and_an_executor_are_killed():
    flow, out = tr.Topology("ids"), tr.sinks.collect()
    numbers = flow.source(tr.sources.rate(2000, partitions=2), tasks=2)
    numbers.shuffle().map(lambda v: v, tasks=3).shuffle().filter(lambda v: True, tasks=2).sink(out, tasks=2)
    settings = tr.Settings(progress_s=0.2, **PATIENT)
    with ending(tr.start(flow, sparks.session(), workers=4, settings=settings)) as query:
        for slot in (0, 2):
            restarts, goal = query._brain.restarts, completed(query) + 500
            until(lambda goal=goal: completed(query) > goal, "progress", query)
            os.kill(pids(query)[slot], signal.SIGKILL)
            until(lambda more=restarts + 1: query._brain.restarts >= more and all_open(query), "a new worker", query)
        goal = completed(query) + 500
        until(lambda: completed(query) > goal, "progress", query)
        executor = executor_of(pids(query)[1])
        lost = [slot for slot, pid in pids(query).items() if executor_of(pid) == executor]
        os.kill(executor, signal.SIGKILL)
        until(lambda: query._brain.restarts >= 2 + len(lost) and all_open(query), "workers elsewhere", query)
        goal = completed(query) + 500
        until(lambda: completed(query) > goal, "progress after the executor's end", query)
        query.stop()
    marks = query._brain._marks
    wanted = {v for part, mark in marks.items() for v in range(part - 1, mark, 2)}
    # A source that was killed may have sent more than its successor came to before the stop.
    assert wanted <= set(out.values)
    assert len(wanted) > 2000


@pytest.mark.timeout(400)
def test_state_lost_with_an_executor_fails_the_query_by_name():
    flow = tr.Topology("counts")
    numbers = flow.source(tr.sources.rate(500), name="numbers").key_by(lambda value: value % 10)
    numbers.count(tasks=1, name="counts").sink(tr.sinks.discard())
    settings = tr.Settings(progress_s=0.2, **PATIENT)
    with ending(tr.start(flow, sparks.session(), workers=2, settings=settings)) as query:
        until(lambda: completed(query) > 0, "progress", query)
        os.kill(executor_of(pids(query)[query.workers_of("counts")[0]]), signal.SIGKILL)
        with pytest.raises(StateLostError, match=r"'counts' \(1 task\)"):
            ended(query)


def folders_of(pids):
    """What these processes have in shared memory."""
    owners = {path: reaping.owner_of(path.name) for path in Path("/dev/shm").glob("tailrace-*")}
    return [path for path, owner in owners.items() if owner is not None and owner.pid in pids]


def test_a_killed_driver_leaves_no_process_and_no_file():
    driver = subprocess.Popen([sys.executable, DRIVER], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        workers = [int(pid) for pid in driver.stdout.readline().split()]
        assert len(workers) == 2
        family = {driver.pid, *workers, *(executor_of(pid) for pid in workers), *(parent(pid) for pid in workers)}
        assert len(folders_of(family)) == 2
        driver.kill()
        until(lambda: not any(map(alive, family)), "the end of workers and executors")
        until(lambda: not folders_of(family), "an empty shared memory")
    finally:
        driver.stdout.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
