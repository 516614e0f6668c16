"""What becomes of a value that makes a function raise, and how a user hears of it."""

from __future__ import annotations

import asyncio
import logging

import pytest

import tailrace as tr
from tailrace.program.errors import OperatorError
from tailrace.testing import TestSink, TestSource


def picky(value):
    if value % 10 == 3:
        raise ValueError(f"no {value}, please")
    return value


def test_by_default_the_query_fails_with_operator_task_and_value(run):
    flow = tr.Topology("fails")
    flow.source(TestSource([1, 2, 3])).map(picky, name="picky-one", tasks=1).sink(tr.sinks.collect())
    with pytest.raises(OperatorError) as caught:
        run(flow)
    assert "'picky-one'" in caught.value.message
    assert "task 0" in caught.value.message
    assert "failed on 3: ValueError: no 3, please" in caught.value.message
    assert "in picky" in caught.value.hint
    assert "tailrace/worker" not in caught.value.hint


def test_a_long_value_is_shortened(run):
    flow = tr.Topology("long")
    flow.source(TestSource(["x" * 100_000])).map(int).sink(tr.sinks.collect())
    with pytest.raises(OperatorError) as caught:
        run(flow)
    assert "xxx" in caught.value.message
    assert len(caught.value.message) < 1000


@pytest.mark.parametrize("verb", ["map", "filter", "flat_map", "process", "keyed_process", "reduce", "async", "sink"])
def test_skip_goes_on_without_such_values(run, verb):
    flow, out = tr.Topology("skips"), tr.sinks.collect()
    numbers = flow.source(TestSource(range(1, 50)))
    wanted = [v for v in range(1, 50) if v % 10 != 3]

    async def awaited(value):
        await asyncio.sleep(0)
        return picky(value)

    if verb == "sink":
        out = TestSink(fails=lambda v: v % 10 == 3)
        numbers.sink(out, on_error="skip")
    elif verb == "keyed_process":
        numbers.key_by(lambda v: v).process(lambda k, v, state: [picky(v)], on_error="skip", tasks=2).sink(out)
    elif verb == "reduce":
        added = numbers.key_by(lambda v: 0).reduce(lambda a, b: a + picky(b), on_error="skip")
        added.map(lambda pair: pair[1]).sink(out)
        wanted = [sum(wanted[: n + 1]) for n in range(len(wanted))]
    elif verb in {"flat_map", "process"}:
        getattr(numbers, verb)(lambda v: [picky(v)], on_error="skip", tasks=2).sink(out)
    else:
        fn = awaited if verb == "async" else picky
        getattr(numbers, "map" if verb == "async" else verb)(fn, on_error="skip", tasks=2).sink(out)
    run(flow)
    assert sorted(out.values) == sorted(wanted)


def test_dead_letters_carry_the_value_and_what_went_wrong(run):
    flow, out, dead = tr.Topology("letters"), tr.sinks.collect(), tr.sinks.collect()
    kept = flow.source(TestSource(range(20))).map(picky, name="picky", on_error="dead_letter", tasks=2)
    kept.sink(out)
    kept.dead_letters().sink(dead)
    run(flow)
    assert sorted(out.values) == [v for v in range(20) if v % 10 != 3]
    assert sorted(letter.value for letter in dead.values) == [3, 13]
    letter = next(letter for letter in dead.values if letter.value == 13)
    assert (letter.operator, letter.error) == ("picky", "ValueError: no 13, please")
    assert letter.task in {0, 1}
    assert "in picky" in letter.traceback


def test_dead_letters_of_a_sink(run):
    flow, dead, out = tr.Topology("sink-letters"), tr.sinks.collect(), TestSink(fails=lambda v: v == 4)
    flow.source(TestSource(range(8))).sink(out, on_error="dead_letter", name="out").dead_letters().sink(dead)
    run(flow)
    assert sorted(out.values) == [0, 1, 2, 3, 5, 6, 7]
    assert [(letter.operator, letter.value) for letter in dead.values] == [("out", 4)]


@pytest.mark.parametrize("where", ["open", "tick", "close"])
def test_an_error_outside_process_names_the_operator_too(run, where):
    class Bad(tr.Operator):
        tick_every_s = 0.01

        def process(self, value):
            return [value]

        def failing(self, *args):
            raise LookupError("lost it")

    setattr(Bad, where, Bad.failing)
    flow = tr.Topology("bad")
    flow.source(tr.sources.rate(100, count=20)).process(Bad, name="bad-one").sink(tr.sinks.collect())
    with pytest.raises(OperatorError, match=r"bad-one.*LookupError: lost it"):
        run(flow)


def test_what_operators_log_comes_back_with_operator_and_task(run, caplog):
    class Talks(tr.Operator):
        def open(self, ctx):
            self.ctx = ctx

        def process(self, value):
            self.ctx.logger.warning("saw %d", value)
            return [value]

    caplog.set_level(logging.INFO, "tailrace")
    flow, out = tr.Topology("talks"), tr.sinks.collect()
    flow.source(TestSource([7])).process(Talks, name="talker").sink(out)
    run(flow)
    told = [record for record in caplog.records if record.name.startswith("tailrace.operator.talker")]
    assert [record.getMessage() for record in told] == ["[task 0] saw 7"]
    assert told[0].levelno == logging.WARNING
