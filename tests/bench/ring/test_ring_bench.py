"""The parts of the ring's bench: rows and bars from made-up figures, and each pair for real with a few messages."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tailrace.transport import ring as rings
from tailrace.transport.segments import Folder
from tailrace_bench.bench import BenchRequest
from tailrace_bench.errors import UnknownBenchError
from tailrace_bench.reporting.plots import points
from tailrace_bench.ring.cases import ARMS, FULL, LATENCY, NAMES, QUICK, SIZES, MessageCase, RingTimes
from tailrace_bench.ring.messages import flood_rows, latency_rows, percentile, planned_s
from tailrace_bench.ring.pair import Pair
from tailrace_bench.ring.run import BENCH
from tailrace_bench.ring.stage_flow import HOPS, HopTally
from tailrace_bench.ring.stages import LAYOUTS, stage_rows
from tailrace_bench.ring.sweep import ring_bytes
from tailrace_bench.ring.wordcount import count_rows

NAMED = {
    "100B@100/s", "10KB@100/s", "40KB@100/s", "160KB@100/s", "320KB@100/s", "100B@1000/s", "10KB@1000/s",
    "40KB@1000/s", "100B@3000/s", "10KB@3000/s", "40KB@3000/s",
}  # fmt: skip


@pytest.fixture
def folder():
    made = Folder.make(watched=False)
    yield made.path
    made.close()


def pick(rows, metric, baseline):
    (row,) = [r for r in rows if (r["metric"], r["baseline"]) == (metric, baseline)]
    return row


def test_the_cases_are_those_of_the_paper():
    assert {case.name for case in LATENCY} == NAMED
    assert set(NAMES) > NAMED
    assert set(QUICK.offers) == set(FULL.offers) == {case.per_s for case in LATENCY}


def test_latency_bars_are_on_the_median_against_uds_tcp_and_netty():
    p50 = {"ring": [20.0] * 5, "uds": [25.0] * 5, "tcp": [39.0] * 5, "zmq": [90.0] * 5, "netty": [41.0] * 5}
    rows = latency_rows(MessageCase("40KB", 3000), {"p50_us": p50, "p99_us": p50}, {})
    judged = {r["baseline"]: (r["bar"], r["ok"]) for r in rows if r["metric"] == "p50_us"}
    assert judged == {"uds": (0.85, True), "tcp": (0.5, False), "zmq": (None, None), "netty": (0.5, True)}
    assert {r["ok"] for r in rows if r["metric"] == "p99_us"} == {None}
    assert "45.64-99.30" in pick(rows, "p50_us", "netty")["paper"]


def test_a_missing_peer_is_told_and_the_rest_is_judged():
    speeds = {"ring": [1000.0] * 5, "uds": [600.0] * 5, "tcp": [400.0] * 5, "netty": [100.0] * 5}
    rows = flood_rows("100B", speeds, {"zmq": "pyzmq is not installed"})
    assert [(r["baseline"], r["ok"]) for r in rows] == [
        ("uds", False),
        ("tcp", True),
        ("pyzmq is not installed", None),
        ("netty", True),
    ]


def test_the_word_count_must_be_ahead_in_all_three():
    values = {
        "p50_ms": {"ring": [1.0] * 5, "uds": [1.1] * 5, "tcp": [2.0] * 5},
        "p99_ms": {"ring": [5.0] * 5, "uds": [4.0] * 5, "tcp": [9.0] * 5},
        "sentences_per_s": {"ring": [50e3] * 5, "uds": [49e3] * 5, "tcp": [51e3] * 5},
    }
    rows = count_rows(values)
    assert {(r["metric"], r["baseline"]) for r in rows if not r["ok"]} == {
        ("p99_ms", "uds"),
        ("sentences_per_s", "tcp"),
    }


def test_the_table_has_each_stage_and_the_share():
    each = {HOPS[0]: 2.0, HOPS[1]: 3.0, "total": 6.0, "share": 5 / 6}
    rows = stage_rows({name: [each] * 5 for name in LAYOUTS})
    by = {(r["case"], r["metric"]): r for r in rows}
    assert by["2N2W", "source_split_ms"]["paper"] == 4.46
    assert by["1N1W", "split_sum_ms"]["paper"] == 0.47
    assert by["1N2W", "inter_operator_share"]["value"] == pytest.approx(5 / 6)
    assert all((name, "total_ms") in by for name in LAYOUTS)


def test_a_tally_is_shared_through_its_file(tmp_path):
    tally = HopTally(str(tmp_path / "tally"), create=True)
    HopTally(tally.path).add("split_sum", 5)
    HopTally(tally.path).add("split_sum", 7)
    assert tally.read() == {"source_split": (0, 0), "split_sum": (12, 2), "total": (0, 0)}


def test_percentile_of_a_few():
    assert percentile([5, 1, 3], 0.5) == 3
    assert percentile([5, 1, 3], 0.99) == 5


@pytest.mark.parametrize(("size", "messages"), [("100B", 4), ("100B", 256), ("10KB", 64)])
def test_a_swept_ring_has_room_for_as_many_messages_as_it_says(size, messages, folder):
    reader = rings.RingReader(str(folder / "ring"), ring_bytes(size, messages), ring_bytes(size, messages))
    writer = rings.RingWriter(reader.path)
    fitted = 0
    while fitted < 2000 and writer.ring.post(0, bytes(SIZES[size]), 0):
        fitted += 1
    least = max(messages, 1024 // 128 - 1)  # no ring is smaller than 1 KiB
    assert messages - 1 <= fitted <= least + 1  # heads come in powers of two, one of which stays free
    writer.close()
    reader.close()


def test_points_of_a_sweep_are_sorted_by_the_number_of_messages():
    rows = [{"case": f"ring,100B,messages={n}", "metric": "msgs_per_s", "value": float(n)} for n in (64, 4)]
    assert points(rows, "msgs_per_s", "ring,100B,messages=") == [(4, 4.0), (64, 64.0)]


def test_an_unknown_case_is_refused():
    with pytest.raises(UnknownBenchError, match="no case"):
        BENCH.run(BenchRequest(Console(file=io.StringIO()), quick=True, only="40KB@3001/s"))


def test_only_what_is_asked_for_is_planned():
    assert planned_s(RingTimes(), "wordcount") == 0
    assert 0 < planned_s(QUICK, "100B@100/s") < planned_s(QUICK, None)


@pytest.mark.skipif(not rings.AVAILABLE, reason=rings.WHY_NOT or "there is a ring")
@pytest.mark.parametrize("kind", [arm for arm in ARMS if arm != "netty"])
def test_every_pair_moves_messages_whole_and_in_order(kind, folder):
    if kind == "zmq":
        pytest.importorskip("zmq")
    pair = Pair(kind, folder)
    try:
        assert len(pair.latencies_ns(SIZES["40KB"], 1000, 30)) == 30
        assert min(pair.latencies_ns(16, 1000, 30)) > 0
        assert pair.flood(100, 0.05).received > 1
    finally:
        pair.close()


@pytest.mark.spark
def test_the_netty_pair_moves_the_same_messages(folder):
    pair = Pair("netty", folder)
    try:
        assert pair.answers["receive"]["up"] in {"epoll", "nio"}
        assert len(pair.latencies_ns(SIZES["40KB"], 1000, 30)) == 30
        assert len(pair.latencies_ns(100, 1000, 30)) == 30
        assert pair.flood(SIZES["10KB"], 0.05).received > 1
    finally:
        pair.close()
