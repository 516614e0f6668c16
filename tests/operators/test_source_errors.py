"""``on_error`` of sources: records that cannot be read end the query, are left out, or become dead letters."""

from __future__ import annotations

import pytest

import tailrace as tr
from tailrace.connect.errors import InputEncodingError
from tailrace.program.errors import OperatorError
from tailrace.testing import TestSink


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "mixed.txt"
    path.write_bytes(b"one\nt\xffwo\nthree\n")
    return path


def test_a_line_that_is_no_text_ends_the_query(run, text):
    flow = tr.Topology("strict")
    flow.source(tr.sources.lines(text)).sink(tr.sinks.discard())
    with pytest.raises(InputEncodingError, match="byte 5 is 0xff"):
        run(flow)


def test_a_line_that_is_no_text_is_left_out(run, text):
    flow, out = tr.Topology("skip"), tr.sinks.collect()
    flow.source(tr.sources.lines(text), on_error="skip").map(str.upper).sink(out)
    run(flow)
    assert sorted(out.values) == ["ONE", "THREE"]


def test_a_line_that_is_no_text_becomes_a_dead_letter(run, text):
    flow, out, dead = tr.Topology("dead"), tr.sinks.collect(), tr.sinks.collect()
    lines = flow.source(tr.sources.lines(text), on_error="dead_letter")
    lines.sink(out, name="out")
    lines.dead_letters().sink(dead, name="dead")
    run(flow)
    assert sorted(out.values) == ["one", "three"]
    (letter,) = dead.values
    assert (letter.operator, letter.value) == ("lines", b"t\xffwo")
    assert "InputEncodingError" in letter.error


def odd(number):
    if number % 2 == 0:
        raise ValueError("even")
    return number


@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_a_record_that_cannot_be_made(run, on_error):
    flow, out = tr.Topology("made"), TestSink()
    flow.source(tr.sources.rate(float("inf"), odd, count=10), on_error=on_error).sink(out)
    if on_error == "fail":
        with pytest.raises(OperatorError, match="'rate', task 0, failed on 0: ValueError: even"):
            run(flow)
    else:
        run(flow)
        assert sorted(out.values) == [1, 3, 5, 7, 9]


class Broken(tr.Source[int]):
    """A source whose reader cannot go on at all."""

    label = "broken"

    def partitions(self):
        return ["all"]

    def open(self, partition, offset, clock):
        return BrokenReader()


class BrokenReader(tr.Reader):
    finished = False

    def read(self, max_records):
        raise RuntimeError("the disk is gone")


def test_what_a_reader_raises_ends_the_query_whatever_the_policy(run):
    flow = tr.Topology("broken")
    flow.source(Broken(), on_error="skip").sink(tr.sinks.discard())
    with pytest.raises(OperatorError, match="Source 'broken', task 0, cannot read on in its partition 1: RuntimeError"):
        run(flow)
