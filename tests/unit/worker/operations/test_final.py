"""``emit="final"``: one pair per key at the end, whatever moves meanwhile, and nothing where there is no end."""

from __future__ import annotations

import random
from collections import Counter
from operator import itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import examples
from tests.unit.worker.operations.test_key_moving import FEW, some_groups, stage_of

import tailrace as tr
from tailrace.config import Policy
from tailrace.program.errors import OperatorError
from tailrace.testing import InProcess, TestSink, TestSource, run
from tailrace.topology.errors import OptionError

PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers(-99, 99)), max_size=80)


def plain_loop(pairs, verb):
    found = {}
    for key, value in pairs:
        if verb == "count":
            found[key] = found.get(key, 0) + 1
        elif verb == "reduce":
            found[key] = (key, found[key][1] + value) if key in found else (key, value)
        else:
            found[key] = [*found.get(key, []), value]
    return {key: sorted(held) if verb == "aggregate" else held for key, held in found.items()}


def combined(stream, verb, **options):
    keyed = stream.key_by(itemgetter(0))
    if verb == "count":
        return keyed.count(name="kept", **options)
    if verb == "reduce":
        return keyed.reduce(lambda one, other: (one[0], one[1] + other[1]), name="kept", **options)
    return keyed.aggregate(list, lambda acc, pair: [*acc, pair[1]], sorted, name="kept", **options)


@pytest.mark.parametrize("routing", ["even", "partial_key"])
@pytest.mark.parametrize("verb", ["count", "reduce", "aggregate"])
@examples(25)
@given(pairs=PAIRS, tasks=st.integers(1, 3), seed=st.integers(0, 99), chained=st.booleans(), tracked=st.booleans())
def test_each_key_is_given_once_with_what_a_plain_loop_finds(verb, routing, pairs, tasks, seed, chained, tracked):
    flow, out = tr.Topology("final"), TestSink()
    held = combined(flow.source(TestSource(pairs, partitions=2)), verb, tasks=tasks, emit="final")
    held.sink(out, tasks=tasks)
    policy = Policy(routing=routing, chaining="on" if chained else "off", replay="fixed:30s" if tracked else "off")
    result = run(flow, workers=2, policy=policy, seed=seed)
    assert sorted(key for key, _ in out.values) == sorted({key for key, _ in pairs})
    assert dict(out.values) == plain_loop(pairs, verb)
    assert result.counters["completed"] == (len(pairs) if tracked else result.counters["completed"])


@pytest.mark.parametrize("replay", ["off", "fixed:30s"])
@pytest.mark.parametrize("seed", range(12))
def test_keys_that_move_are_given_by_whoever_has_them_at_the_end(seed, replay):
    rng = random.Random(seed)
    source, out = TestSource(open_ended=True), TestSink()
    flow = tr.Topology("moved")
    combined(flow.source(source), "count", tasks=3, emit="final").sink(out, tasks=2)
    pairs = [(at % 17, at) for at in range(400)]
    done = 0
    with InProcess(flow, workers=3, settings=FEW, seed=seed, policy=Policy(replay=replay)) as query:
        stage = stage_of(query, "kept")
        for part in range(8):
            source.feed(pairs[part * 50 : (part + 1) * 50])
            query.turns(rng.randint(0, 8))
            query.brain.operations.move_keys(stage, some_groups(query, stage, rng), "a test asks")
            if part == 7:
                source.end()  # the end comes while keys are on their way
            query.turns(rng.randint(0, 30))
            if rng.random() < 0.5:
                query.advance(0.05)
        query.finish()
        done = sum(plan.state == "done" for plan in query.brain.operations.told)
    assert done
    assert Counter(key for key, _ in out.values) == dict.fromkeys(range(17), 1)
    assert dict(out.values) == Counter(key for key, _ in pairs)


def test_a_query_that_is_stopped_gives_what_it_has():
    source, out = TestSource(range(30), open_ended=True), TestSink()
    flow = tr.Topology("stopped")
    flow.source(source).key_by(lambda v: v % 3).count(tasks=2, emit="final").sink(out)
    with InProcess(flow, workers=2) as query:
        query.advance(1.0)
        assert out.values == []
        query.stop()
    assert sorted(out.values) == [(0, 10), (1, 10), (2, 10)]


def test_a_query_that_fails_gives_no_last_word(tmp_path):
    flow, source = tr.Topology("failed"), TestSource(range(30), open_ended=True)
    numbers = flow.source(source)
    counted = numbers.key_by(lambda v: v % 3).count(tasks=2, emit="final")
    counted.sink(tr.sinks.json_lines(tmp_path / "out"), tasks=2)  # in the very tasks that count
    numbers.map(lambda v: 1 // (v - 99)).sink(tr.sinks.discard())
    with InProcess(flow, workers=1) as query:
        query.advance(1.0)
        source.feed([99])
        with pytest.raises(OperatorError):
            query.finish()
    assert [part.read_text() for part in (tmp_path / "out").iterdir()] == ["", ""]


@pytest.mark.parametrize("on_error", ["fail", "skip", "dead_letter"])
def test_a_result_that_fails_at_the_end_is_treated_by_the_policy(on_error):
    flow, out, dead = tr.Topology("results"), TestSink(), TestSink()
    keyed = flow.source(TestSource(range(30))).key_by(lambda v: v % 3)
    held = keyed.aggregate(int, lambda acc, v: acc + v % 3, lambda acc: 60 // acc, emit="final", on_error=on_error)
    held.sink(out, name="out")
    if on_error == "dead_letter":
        held.dead_letters().sink(dead, name="dead")
    if on_error == "fail":
        with pytest.raises(OperatorError, match="ZeroDivisionError"):
            run(flow, workers=2)
        return
    result = run(flow, workers=2)
    assert sorted(out.values) == [(1, 6), (2, 3)]
    assert (result.counters["skipped"], result.counters["deadLetters"]) == ((1, 0) if on_error == "skip" else (0, 1))
    assert [letter.value for letter in dead.values] == [(0, 0)] * (on_error == "dead_letter")


def test_what_emits_as_it_comes_has_no_last_word():
    stream = tr.Topology("refused").source(TestSource([1]))
    with pytest.raises(OptionError, match="has no option 'emit'"):
        stream.map(str, emit="final")
    with pytest.raises(OptionError, match="'update' or 'final'"):
        stream.key_by(str).count(emit="last")


def test_the_drawing_says_so():
    flow = tr.Topology("drawn")
    flow.source(TestSource([1])).key_by(str).count(emit="final").sink(tr.sinks.discard())
    assert "count (count, 1 task, emit final)" in str(flow)
