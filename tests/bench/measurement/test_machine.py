from __future__ import annotations

import os

import pytest

from tailrace_bench.errors import LoadedMachineError
from tailrace_bench.measurement import machine, proc
from tailrace_bench.measurement.machine import OtherLoad, check_quiet


@pytest.mark.parametrize(
    ("busy", "average", "quiet"),
    [(0.0, 0.0, True), (0.3, 0.5, True), (0.31, 0.5, False), (0.0, 3.0, True), (0.0, 3.1, False), (2.0, 19.0, False)],
)
def test_a_loaded_machine_is_refused(busy, average, quiet):
    load = OtherLoad(cores=2, busy_cores=busy, load_average=average)
    if quiet:
        check_quiet(load)
    else:
        with pytest.raises(LoadedMachineError, match=f"{busy:.2f}"):
            check_quiet(load)
    check_quiet(load, force=True)


def test_busy_cores_are_those_of_the_sampled_time():
    def burn(seconds: float) -> None:
        ended = os.times().user + seconds
        while os.times().user < ended:
            pass

    load = machine.sample_load(0.2, sleep=burn)
    assert load.busy_cores > 0.3  # this process alone used its core, however many others shared it


def test_the_machine_is_described_without_its_name():
    described = machine.describe_machine(OtherLoad(2, 0.1, 0.2))
    assert described["cores"] == 2
    assert os.uname().nodename not in map(str, described.values())


def test_cpu_and_memory_of_processes():
    me = os.getpid()
    used = os.times()
    assert proc.cpu_s([me]) == pytest.approx(used.user + used.system, abs=0.2)
    assert proc.peak_bytes([me]) > 10 << 20
    assert proc.cpu_s([2**30]) == 0.0
    assert proc.peak_bytes([2**30]) == 0
