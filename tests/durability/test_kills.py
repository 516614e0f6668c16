"""Queries on Spark whose workers, executor and driver are killed many times: what they publish is exact."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import cloudpickle
import pytest
from tests import sparks
from tests.queries import PATIENT, WAIT_S, alive, all_open, ended, ending, executor_of, pids, until

import tailrace as tr

from . import durable_count

pytestmark = [pytest.mark.chaos, pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
#: All of the large text; a third as much per second as two cores take beside Spark.
SENTENCES, PER_S = 18_862, 800


def five_killed_workers_and_an_executor(flow, folder, *, backend="memory", standby=0):
    """Start, kill in between some epochs each time, and wait for the end."""
    cloudpickle.register_pickle_by_value(durable_count)  # executors cannot import the tests
    settings = tr.Settings(progress_s=0.2, state_backend=backend, **PATIENT)
    every, rng = tr.Checkpoint(folder, every_s=0.3, standby=standby), random.Random(5)
    with ending(tr.start(flow, sparks.session(), workers=4, settings=settings, checkpoint=every)) as query:
        for number in range(6):
            goal = query._brain.checkpoints.figures.durable + 4
            until(lambda goal=goal: query._brain.checkpoints.figures.durable >= goal, "epochs", query)
            execution, pid = query._brain.checkpoints.execution, rng.choice([*pids(query).values()])
            os.kill(executor_of(pid) if number == 3 else pid, signal.SIGKILL)
            until(lambda execution=execution: query._brain.checkpoints.execution > execution, "a recovery", query)
            until(lambda: all_open(query), "everyone", query)
        ended(query)


@pytest.mark.parametrize(
    ("backend", "standby"), [("memory", 0), ("disk", 0), ("memory", 1)], ids=["memory", "disk", "standby"]
)
def test_five_killed_workers_and_an_executor_do_not_show(tmp_path, backend, standby):
    flow = durable_count.counted(tmp_path / "counts", PER_S, SENTENCES)
    five_killed_workers_and_an_executor(flow, tmp_path / "checkpoint", backend=backend, standby=standby)
    assert durable_count.faults(tmp_path / "counts", SENTENCES) == ""


def test_histories_and_what_is_counted_of_them_are_of_one_order(tmp_path):
    five_killed_workers_and_an_executor(durable_count.levels(tmp_path, 400, 8000), tmp_path / "checkpoint")
    assert durable_count.level_faults(tmp_path, 8000) == ""


def test_five_killed_drivers_do_not_show(tmp_path):
    """Each is killed once it has come further than the one before; the last one ends by itself."""
    command = [sys.executable, "-m", "tests.durability.killed_driver", tmp_path, str(PER_S), str(SENTENCES)]
    for number in range(6):
        driver = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)
        try:
            workers = [int(pid) for pid in driver.stdout.readline().split()]
            said = ""
            for said in driver.stdout:
                if number < 5 and said.strip().isdigit() and int(said) > 1500:
                    driver.kill()
                    break
            assert number < 5 or said.strip() == "ended"
            until(lambda workers=workers: not any(map(alive, workers)), "the end of its workers")
        finally:
            driver.stdout.close()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
            driver.wait(WAIT_S)
    assert durable_count.faults(tmp_path / "counts", SENTENCES) == ""
