"""How busy a machine is, from the kernel's counters."""

from __future__ import annotations

from tailrace.worker.machine_load import MachineLoad


def test_the_share_is_of_the_time_between_two_questions(tmp_path):
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3\n")
    load = MachineLoad(stat)
    stat.write_text("cpu  140 0 70 820 70 0 0 0 0 0\ncpu0 1 2 3\n")
    assert load.since_last() == 0.6
    assert load.since_last() == 0.0  # no tick has passed


def test_without_counters_it_goes_by_what_is_runnable(tmp_path):
    assert 0.0 <= MachineLoad(tmp_path / "none").since_last() <= 1.0
