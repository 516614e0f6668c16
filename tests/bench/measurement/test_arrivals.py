"""Arrivals noted by a sink are read once, by another process if need be, and never beyond their room."""

from __future__ import annotations

from tailrace_bench.measurement import arrivals
from tailrace_bench.measurement.arrivals import Arrivals


def test_each_arrival_is_read_once(tmp_path):
    path = str(tmp_path / "sink.times")
    sink, bench = Arrivals(path, create=True), Arrivals(path)
    sink.note({5}, 9)
    sink.note([6, 7], 11)
    assert bench.fresh().tolist() == [5, 9, 6, 11, 7, 11]
    assert bench.fresh().tolist() == []
    sink.note([8], 12)
    assert bench.fresh().tolist() == [8, 12]


def test_what_there_is_no_room_for_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(arrivals, "PAIRS_MAX", 2)
    sink = Arrivals(str(tmp_path / "sink.times"), create=True)
    for due_ns in (1, 2, 3):
        sink.note([due_ns], 9)
    assert sink.fresh().tolist() == [1, 9, 2, 9]
