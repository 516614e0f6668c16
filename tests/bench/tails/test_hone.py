"""The parts of the gate's bench that need no quiet machine: sentences, the flow, times to figures."""

from __future__ import annotations

from array import array

import pytest

from tailrace.clock import FakeClock
from tailrace.config import Policy, Settings
from tailrace.testing.inprocess import InProcess
from tailrace.topology.plan import make_plan
from tailrace_bench.tails import hone
from tailrace_bench.tails.arms import TailTimes
from tailrace_bench.tails.sentences import TASKS, SentenceLoad, Sentences, bytes_per_word, word_count

S, MS = 1_000_000_000, 1_000_000


def sentences(seed, words_max=32):
    clock = FakeClock(1)
    reader = Sentences(500.0, words_max, seed).open("3", 0, clock)
    reader.wait_s()
    clock.advance(20 * S)
    return reader.read(10_000).values


def test_sentences_are_the_same_for_a_seed_and_as_long_as_they_may_be():
    found = sentences(1)
    assert found == sentences(1)
    assert found != sentences(2)
    assert len(found) == pytest.approx(20 * 50, rel=0.15)
    assert {len(text.split()) for _, _, text in found} == set(range(1, 33))
    assert {task for task, _, _ in found} == set(range(TASKS))
    assert max(len(text.split()) for _, _, text in sentences(1, 10)) == 10


@pytest.mark.parametrize(("grouping", "in_turn"), [("shuffle", False), ("fields", True)])
def test_every_word_is_counted_and_its_times_are_kept(tmp_path, grouping, in_turn):
    flow = word_count(SentenceLoad(200.0, in_turn=in_turn), grouping, str(tmp_path), 1)
    assert [stage.tasks for stage in make_plan(flow).stages] == [TASKS] * 3
    link = int(SentenceLoad(200.0).words_per_s * bytes_per_word() / 0.9)
    settings = Settings(link_bytes_per_s=link, batch_max=1, progress_s=0.25)
    policy = Policy(sending="lbf", placement="by_operator", replay="off")
    with InProcess(flow, workers=6, nodes=3, policy=policy, settings=settings) as query:
        query.advance(0.3)
        progress = query.stop().progress
    rows = array("q")
    for file in tmp_path.glob("*.times"):
        rows.frombytes(file.read_bytes())
    assert len(rows) // 3 == progress[-1]["stages"][1]["out"] > 300
    assert set(rows[2::3]) == set(range(TASKS))
    assert hone._largest_backlog(progress, 0) > 5
    assert progress[-1]["nodes"].keys() == {"node-0", "node-1", "node-2"}


def test_a_window_has_the_words_whose_sentences_were_due_in_it():
    times = TailTimes(repeats=1, warm_s=1.0, window_s=2.0, windows=2)
    words = [
        (0, 10 * MS, 0),  # warm-up
        (1 * S, 1 * S + 4 * MS, 0),
        (2 * S, 2 * S + 8 * MS, 1),
        (3 * S + MS, 3 * S + 21 * MS, 1),
        (2 * S + 999 * MS, 3 * S + 5 * MS, 1),  # due in the first window, counted in the second
        (6 * S, 6 * S + MS, 0),  # past the end
    ]
    found = hone.latencies(array("q", [number for word in words for number in word]), times)
    assert found == {
        "mean_ms": [(4 + 8 + 6) / 3, 20.0],
        "throughput": [1.0, 1.0],
        "slowest_task_p99_ms": [8.0, 20.0],
    }


def test_the_quick_run_is_planned_within_five_minutes():
    assert hone.planned_s(hone.QUICK, None) < 300
    assert all(0 < hone.planned_s(hone.QUICK, case) < 100 for case in hone.CASES)


def test_rows_carry_the_bars_and_the_papers_figures():
    measured = {
        name: hone.BacklogMeasurements({metric: [1.0] for metric in hone._METRICS}) for name in ("lbf", "round_robin")
    }
    measured["lbf"].values["max_backlog"] = [0.6]
    rows = {row["metric"]: row for row in hone._against("shuffle", measured, "round_robin", barred=True)}
    assert (rows["max_backlog"]["ok"], rows["max_backlog"]["bar"]) == (True, 0.65)
    assert (rows["mean_ms"]["ok"], rows["mean_ms"]["paper"]) == (True, "0.21 of Storm")
    assert rows["slowest_task_p99_ms"]["bar"] is None


def test_a_machine_that_cannot_keep_up_makes_a_case_void():
    values = {"lbf": [9.9, 9.8], "fifo": [9.0, 10.0]}
    measured = {name: hone.BacklogMeasurements({"throughput": each}) for name, each in values.items()}
    load = SentenceLoad(per_s=2.0, words_max=9)
    assert hone.carried("shuffle", measured, load)["ok"] is False
    measured["fifo"].values["throughput"] = [9.9, 10.0]
    row = hone.carried("shuffle", measured, load)
    assert (row["value"], row["ok"]) == (pytest.approx(0.98), True)
