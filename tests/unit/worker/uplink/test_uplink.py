"""The gate in a query, in process: exact results, the pace of the link, its order, and workers that go."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pytest

import tailrace as tr
from tailrace.config import Policy, Settings
from tailrace.errors import ConfigError
from tailrace.sending.gate import GATE_TASKS_MAX, Cursor, Entry, Grant
from tailrace.sending.registry import GATES
from tailrace.testing.connectors import TestSource
from tailrace.testing.inprocess import InProcess
from tailrace.transport import wire

RATE = 50_000
RNG = Random(7)
LINES = [" ".join(f"w{RNG.randrange(40)}" for _ in range(RNG.randint(1, 32))) for _ in range(150)]
WORDS = Counter(word for line in LINES for word in line.split())


def word_count():
    flow = tr.Topology("words")
    lines = flow.source(tr.sources.items(LINES), tasks=2).shuffle()
    lines.flat_map(str.split, name="split", tasks=4).key_by(str).count(name="count", tasks=4).sink(tr.sinks.collect())
    return flow


def query(sending="lbf", *, link=RATE, nodes=2, workers=4, flow=None, **settings):
    return InProcess(
        flow or word_count(),
        workers=workers,
        nodes=nodes,
        policy=Policy(sending=sending),
        settings=Settings(link_bytes_per_s=link, **settings),
    )


def counted(result):
    best = {}
    for word, count in result.values():
        best[word] = max(best.get(word, 0), count)
    return best


def crossing_after(running):
    found = crossing(running)
    running.finish()
    return found


def crossing(running, nodes=2):
    """Frames of tuples between nodes: collects (time, slot, channel, bytes) as workers send them."""
    found = []
    for cell in running._cells.values():

        def spy(slot, message, cell=cell, send=cell._send):
            taken = send(slot, message)
            if taken and slot % nodes != cell.brain.slot % nodes:
                found.extend(
                    (running.clock.now_ns(), cell.brain.slot, frame.channel, wire.FRAME_HEAD_BYTES + len(frame.payload))
                    for frame in wire.frames(message)
                    if frame.kind == wire.DATA
                )
            return taken

        cell.brain.deployment.worker.outgoing._send = spy
    return found


@pytest.mark.parametrize("sending", sorted(GATES))
def test_counts_are_exact_behind_a_limited_link(sending):
    with query(sending) as running:
        assert counted(running.finish()) == WORDS


@pytest.mark.parametrize("sending", sorted(GATES))
def test_a_node_sends_as_much_as_its_link_carries_while_something_waits_and_never_more(sending):
    flow = tr.Topology("much")
    source = flow.source(tr.sources.items(range(1000)), tasks=4)
    source.shuffle().map(str, tasks=4).shuffle().sink(tr.sinks.collect(), tasks=4)
    policy = Policy(sending=sending, placement="by_operator")
    settings = Settings(link_bytes_per_s=RATE)
    with InProcess(flow, workers=4, nodes=2, policy=policy, settings=settings) as running:
        sent = [(at / 1e9, size) for at, slot, _, size in crossing_after(running)]
    before = 0
    for at_s, size in sent:
        assert before <= RATE * (at_s + 0.01)  # whatever went before is through; bundles go whole
        before += size
    assert before >= 0.97 * RATE * sent[-1][0]


def test_without_a_limit_there_is_no_gate():
    with InProcess(word_count(), workers=2) as running:
        assert all(cell.brain.deployment.uplink is None for cell in running._cells.values())
        assert counted(running.finish()) == WORDS


def test_tuples_within_a_node_do_not_wait_for_its_link():
    with query(link=1, nodes=1) as running:  # a byte per second
        assert counted(running.finish()) == WORDS
        assert running.clock.now_ns() < 5e9


def test_acks_and_ends_pass_by_the_gate():
    flow = tr.Topology("one way")
    flow.source(tr.sources.items(range(40)), tasks=1).shuffle().sink(tr.sinks.collect(), tasks=1)
    settings = Settings(link_bytes_per_s=2_000)
    with InProcess(flow, workers=2, policy=Policy(placement="by_operator"), settings=settings) as running:
        sent = crossing(running)
        result = running.finish()
        table = running._tables["node-1"]
        assert table.entries() == {}
        assert table.turn().free_ns == 0  # what the sink's worker sent, acks and credits, took none of its link
    assert sorted(result.values()) == list(range(40))
    assert {slot for _, slot, _, _ in sent} == {0}


def test_lbf_shortens_the_longest_queue_of_the_node_whichever_worker_has_it():
    def most(sending):
        flow = tr.Topology("uneven")
        fed = TestSource(open_ended=True)
        source = flow.source(fed, tasks=1)
        parts = source.group_by(lambda value, tasks: 0 if value % 4 else 1).flat_map(
            lambda value: [value] * 2, name="make", tasks=2
        )
        parts.shuffle().sink(tr.sinks.collect(), tasks=2)
        policy = Policy(sending=sending, placement="by_operator", replay="off")
        settings = Settings(link_bytes_per_s=20_000, progress_s=0.01, batch_max=1, gate_max_wait_ms=10_000)
        with InProcess(flow, workers=6, nodes=3, policy=policy, settings=settings) as running:
            for value in range(0, 200, 4):  # twice what the link carries, three quarters of it by one task
                fed.feed(range(value, value + 4))
                running.advance(0.005)
            fed.end()
            result = running.finish()
            made_in = [
                cell.brain.slot
                for cell in running._cells.values()
                if "make" in [task.name for task in cell.brain.tasks]
            ]
            assert sorted(made_in) == [1, 4]
        assert Counter(result.values()) == Counter(dict.fromkeys(range(200), 2))
        return max(
            task.get("uplinkMost", 0)
            for each in result.progress
            for task in each["tasks"]
            if task["operators"] == ["make"]
        )

    assert most("lbf") < 0.8 * most("round_robin")


def test_workers_of_a_node_take_turns_at_one_table():
    with query("round_robin", gate_quantum=1) as running:
        sent = crossing(running)
        running.finish()
    of_node = [slot for _, slot, _, _ in sent if slot % 2 == 0]
    turns = sum(before != after for before, after in pairwise(of_node))
    assert set(of_node) == {0, 2}
    assert turns > len(of_node) / 10


@pytest.mark.parametrize("slot", [0, 3])
def test_a_lost_worker_holds_nobody_up_and_nothing_is_lost(slot):
    flow = tr.Topology("numbers")
    source = flow.source(tr.sources.items(range(300)), tasks=2)
    source.shuffle().map(str, tasks=4).shuffle().sink(tr.sinks.collect(), tasks=4)
    with query("lbf", flow=flow) as running:
        running.turns(500)
        assert 0 < len(running.values()) < 300
        running.kill(slot)
        result = running.finish()
    assert set(result.values()) == set(map(str, range(300)))


def test_a_grant_to_a_worker_that_does_not_come_passes_on_after_tau():
    with query("lbf") as running:
        running.turns(5)
        table = running._tables["node-0"]
        now_ns = running.clock.now_ns()
        table.show(Entry(GATE_TASKS_MAX - 1, 0, -1, 1000, 0, 0, now_ns))
        table.set_turn(0, Grant(GATE_TASKS_MAX - 1, 4, now_ns + 10_000_000, Cursor()), 4)
        assert counted(running.finish()) == WORDS


def test_a_worker_that_cannot_get_at_the_table_goes_on_alone():
    with query("lbf") as running:
        running._tables["node-0"].lock = lambda: False
        assert counted(running.finish()) == WORDS


def test_a_gate_without_a_limited_link_says_what_to_set():
    with pytest.raises(ConfigError, match="link_bytes_per_s is 0"):
        query("lbf", link=0)
    with pytest.raises(ConfigError, match="Setting link_bytes_per_s"):
        Settings(link_bytes_per_s=-1)


def test_more_senders_than_the_table_has_rows_are_refused():
    flow = tr.Topology("wide")
    flow.source(tr.sources.items([1]), tasks=1).map(str, tasks=GATE_TASKS_MAX).sink(tr.sinks.collect(), tasks=1)
    with pytest.raises(ConfigError, match=f"may have {GATE_TASKS_MAX} tasks"):
        query(flow=flow)
