"""A worker that is lost with state fails the query by name; one without state, or that leaves in order, does not."""

from __future__ import annotations

import logging

import pytest

import tailrace as tr
from tailrace.config import Policy, Settings
from tailrace.coordinator.errors import StateLostError
from tailrace.coordinator.migration.replanning import moves_to
from tailrace.errors import ConfigError
from tailrace.testing import InProcess, TestSource


class Remembers(tr.Operator):
    def process(self, value):
        return [value]


class Connects(Remembers):
    stateful = False


class Follows(tr.KeyedOperator):
    def process(self, key, value, state):
        return [value]


def by_key(stream):
    return stream.key_by(lambda value: value % 3)


HOLDING = {
    "count": lambda stream: by_key(stream).count(name="held", tasks=2),
    "reduce": lambda stream: by_key(stream).reduce(max, name="held", tasks=2),
    "aggregate": lambda stream: by_key(stream).aggregate(int, lambda held, _: held + 1, name="held", tasks=2),
    "keyed function": lambda stream: by_key(stream).process(lambda key, value, state: None, name="held", tasks=2),
    "keyed class": lambda stream: by_key(stream).process(Follows, name="held", tasks=2),
    "class": lambda stream: stream.shuffle().process(Remembers, name="held", tasks=2),
    "object": lambda stream: stream.shuffle().process(Remembers(), name="held", tasks=2),
    "split": lambda stream: tr.split.total(stream, tasks=2, name="held"),
}
FREE = {
    "map": lambda stream: stream.shuffle().map(str, name="held", tasks=2),
    "function": lambda stream: stream.shuffle().process(lambda value: [value], name="held", tasks=2),
    "class that says so": lambda stream: stream.shuffle().process(Connects, name="held", tasks=2),
    "object that says so": lambda stream: stream.shuffle().process(Connects(), name="held", tasks=2),
}


def running(draw, *, workers=5, **settings):
    """A query with a task of the drawn operator on a worker of its own, and that worker's slot."""
    source = TestSource(range(20), open_ended=True)
    flow = tr.Topology("state")
    draw(flow.source(source, name="source")).shuffle().sink(tr.sinks.discard(), name="end", tasks=1)
    query = InProcess(flow, workers=workers, policy=Policy(chaining="off"), settings=Settings(**settings))
    return query, source


def slot_of(query, name, task=0):
    (stage,) = [each.id for each in query._program.plan.stages if each.head.name == name]
    return query.brain.placement[stage][task]


@pytest.mark.parametrize("draw", HOLDING.values(), ids=HOLDING)
def test_state_that_is_lost_fails_the_query_and_says_what_where_and_what_to_do(draw):
    with running(draw)[0] as query:
        query.settle()
        names = {each.head.name for each in query._program.plan.stages} - {"source", "end"}
        name = "held_parts" if "held_parts" in names else "held"
        slot = slot_of(query, name)
        query.kill(slot)
        with pytest.raises(StateLostError) as caught:
            query.settle()
    for part in (f"Worker {slot} (executor in-process on node-{slot}", f"the state of {name!r} (1 task)"):
        assert part in caught.value.message
    assert "lost_state='accept'" in caught.value.hint
    assert "Start the query again" in caught.value.hint


@pytest.mark.parametrize("draw", FREE.values(), ids=FREE)
def test_a_worker_without_state_may_be_lost(draw):
    query, source = running(draw)
    with query:
        query.settle()
        query.kill(slot_of(query, "held"))
        source.end()
        result = query.finish()
    assert result.counters["restarts"] == 1
    assert result.progress[-1]["lostState"] == 0


def test_a_loss_that_is_accepted_is_warned_of_counted_and_shown(caplog):
    query, source = running(HOLDING["count"], lost_state="accept")
    with query, caplog.at_level(logging.WARNING, logger="tailrace"):
        query.settle()
        for task in (0, 1):
            query.kill(slot_of(query, "held", task))
            query.settle()
        source.end()
        result = query.finish()
        told = query.explain()
    assert [record.name for record in caplog.records] == ["tailrace", "tailrace"]
    assert "the state of 'held' (1 task)" in caplog.text
    assert result.progress[-1]["lostState"] == 2
    assert "State lost (2 tasks)" in told
    assert f"Worker {slot_of(query, 'held', 1)} (executor" in told


def test_a_worker_that_leaves_in_order_takes_no_state_along():
    query, source = running(HOLDING["count"], workers=3)
    with query:
        query.settle()
        plans = query.brain.operations.move_tasks(
            moves_to(query._program, query.brain, "spread", [0, 1]), "a test asks"
        )
        query.advance(2.0)
        assert {plan.state for plan in plans} == {"done"}
        query.brain.membership.dismiss([2])
        query.settle()
        source.end()
        result = query.finish()
    assert result.progress[-1]["lostState"] == 0


def test_a_task_that_is_done_has_no_state_to_lose():
    flow = tr.Topology("done")
    counted = flow.source(tr.sources.items(range(9)), name="source").key_by(lambda value: value).count(name="held")
    counted.shuffle().sink(tr.sinks.discard(), name="end")
    endless = TestSource(open_ended=True)
    flow.source(endless, name="endless").shuffle().sink(tr.sinks.discard(), name="other")
    with InProcess(flow, workers=5, policy=Policy(chaining="off")) as query:
        query.advance(2.0)
        slot = slot_of(query, "held")
        query.kill(slot)
        query.advance(2.0)
        assert query.brain.restarts == 1
        endless.end()


def test_a_successor_that_comes_before_the_connection_broke_tells_of_the_loss_too():
    with running(HOLDING["count"])[0] as query:
        query.settle()
        query._register(slot_of(query, "held"))
        with pytest.raises(StateLostError):
            query.settle()


def test_the_setting_is_one_of_two_words():
    with pytest.raises(ConfigError, match="lost_state must be one of fail, accept; found 'ignore'"):
        Settings(lost_state="ignore")
