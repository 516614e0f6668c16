"""Worker brains against each other: bounds, ends, fences, replays and duplicates, all by hand and without a clock."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.unit.worker.mesh import Mesh
from tests.unit.worker.rig import Kept

import tailrace as tr
from tailrace import protocol
from tailrace.config import Policy, Settings
from tailrace.items import End
from tailrace.program.errors import ProtocolError
from tailrace.topology.operators import Operator
from tailrace.transport import wire
from tailrace.worker.execution.executors import run_piece

SMALL = Settings(max_pending=64, inbox_tuples=128, outbox_tuples=32, batch_max=8)
WINDOW_MIN = 64


def kept(name):
    return Kept.written[name]


def line(values, *, name, middle=lambda stream: stream.map(lambda value: value), tasks=1):
    """Source -> one operator -> sink, a stage each."""
    flow = tr.Topology("line")
    stream = middle(flow.source(tr.sources.items(values)))
    stream.shuffle().sink(Kept(name), tasks=tasks)
    return flow


# -- from end to end -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [1, 2, 1000])
@pytest.mark.parametrize("replay", ["fixed:30s", "off"])
def test_everything_arrives_and_every_task_ends(room, replay):
    flow = line(range(1000), name="all", tasks=2)
    policy = Policy(chaining="off", replay=replay)
    mesh = Mesh(flow, [[0], [1], [2, 0]], settings=SMALL, room=room, policy=policy)
    mesh.settle()
    assert Counter(kept("all")) == Counter(range(1000))
    assert mesh.closed
    done = {(each.stage, each.task) for slot in mesh.slots for each in mesh.controls(slot, protocol.TaskDone)}
    assert done == {(0, 0), (1, 0), (2, 0), (2, 1)}


def test_a_peer_that_takes_nothing_holds_the_source_back_and_loses_nothing():
    mesh = Mesh(line(range(5000), name="full"), [[0], [0], [1]], settings=SMALL, room=1)
    for _ in range(50):
        mesh.settle(without=[1])
        source = mesh.task("items").source
        assert source.read <= SMALL.max_pending
        assert len(source.ledger) <= SMALL.max_pending
        for task in mesh.brains[0].tasks:
            assert all(len(box.values) <= SMALL.outbox_tuples + SMALL.batch_max for box in task.boxes)
    assert source.read < 5000
    mesh.settle()
    assert sorted(kept("full")) == list(range(5000))


def test_without_tracking_outboxes_and_inboxes_alone_hold_the_source_back():
    policy = Policy(chaining="off", replay="off")
    mesh = Mesh(line(range(5000), name="untracked"), [[0], [0], [1]], settings=SMALL, room=1, policy=policy)
    mesh.settle(without=[1])
    bound = 2 * (SMALL.outbox_tuples + SMALL.inbox_tuples + 1024)
    assert mesh.task("items").source.read <= bound
    mesh.settle()
    assert sorted(kept("untracked")) == list(range(5000))


def test_an_inbox_never_holds_more_than_its_bound():
    flow = line(range(3000), name="bound", middle=lambda stream: stream.flat_map(lambda v: [v, -v - 1], tasks=2))
    mesh = Mesh(flow, [[0], [0, 1], [2]], settings=SMALL)
    sink = mesh.task("sink")
    for _ in range(40):
        mesh.settle(without=[2])
        mesh.deliver(2)
        assert sink.inbox.tuples <= SMALL.inbox_tuples
        mesh.work(2, pieces=1)
        mesh.flush(2)
    assert sink.inbox.tuples_most == pytest.approx(SMALL.inbox_tuples, abs=4), "it must have been full"
    mesh.settle()
    assert len(kept("bound")) == 6000


def test_replays_do_not_pile_up_behind_a_full_peer():
    """A sink that takes nothing for many time-outs: what waits must not grow with each of them."""
    mesh = Mesh(line(range(5000), name="piled"), [[0], [1], [1]], settings=SMALL, room=1)
    most = 0
    for _ in range(60):
        mesh.settle(without=[1])
        mesh.advance(31)
        most = max(most, sum(len(box.values) for box in mesh.task("items").boxes))
    assert most <= SMALL.outbox_tuples + SMALL.max_pending
    assert sum(map(len, mesh.mail[0, 1])) < 100_000
    mesh.settle()
    for _ in range(100):
        mesh.advance(31)
        mesh.settle()
    assert Counter(kept("piled")) == Counter(range(5000))
    assert mesh.closed


def test_a_source_in_a_thread_keeps_to_max_pending():
    flow = line(range(100), name="threaded")
    mesh = Mesh(flow, [[0], [1], [1]], settings=Settings(max_pending=10))
    mesh.task("items").mode = "thread"
    mesh.settle(without=[1])
    assert mesh.task("items").source.read == 10


# -- fences ----------------------------------------------------------------------------------------------------------


def test_frames_of_an_older_attempt_or_a_stranger_are_refused():
    mesh = Mesh(line(range(100), name="fenced"), [[0], [1], [1]])
    mesh.work(0)
    mesh.flush(0)
    (message,) = list(mesh.mail[0, 1])[:1]
    brain = mesh.brains[1]
    for slot, attempt in ((0, 0), (0, 2), (7, 1)):
        brain.on_message(wire.message_head(slot, attempt) + message[wire.MESSAGE_HEAD_BYTES :])
    assert brain.refused_messages == 3
    assert not any(task.inbox for task in brain.tasks)
    brain.on_message(message)
    assert mesh.task("map").inbox.tuples > 0


def test_from_peer_up_on_the_old_worker_is_refused_and_the_new_one_is_not_sent_to_before_resume():
    mesh = Mesh(line(range(100), name="peer-up"), [[0], [1], [1]])
    mesh.work(0)
    mesh.flush(0)
    old = mesh.mail.pop((0, 1))
    mesh.attempts[0] = 2
    mesh.brains[1].on_control(protocol.PeerUp(mesh.peer(0)))
    for message in old:
        mesh.brains[1].on_message(message)
    assert mesh.brains[1].refused_messages == len(old)
    mesh.work(1)
    mesh.flush(1)
    assert (1, 0) not in mesh.mail


# -- replays ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [0, 1])
def test_a_stateless_worker_that_is_replaced_leaves_no_trace_in_the_results(lost):
    mesh = Mesh(line(range(500), name="replaced"), [[0], [1], [2]], settings=SMALL)
    for round_number in range(3):
        for slot in (0, 1, 2):
            mesh.turn(slot)
        mesh.replace(lost)
        assert mesh.task("map").closed is False, round_number
    mesh.settle()
    assert Counter(kept("replaced")) == Counter(range(500))
    assert mesh.task("sink").deduplicator.dropped > 0
    assert mesh.closed


def test_a_replaced_sink_gets_everything_that_was_open():
    mesh = Mesh(line(range(500), name="sink-lost"), [[0], [1], [2]], settings=SMALL)
    for _ in range(3):
        for slot in (0, 1, 0, 1):
            mesh.turn(slot)
        mesh.deliver(2)
        mesh.work(2, pieces=2)  # written, and its acks lost with the worker
        mesh.replace(2)
    mesh.settle()
    assert set(kept("sink-lost")) == set(range(500))
    assert mesh.closed


def test_a_timeout_sends_open_roots_again_and_only_those():
    mesh = Mesh(line(range(20), name="late"), [[0], [1], [1]])
    mesh.settle(without=[1])
    lost = len(mesh.mail[0, 1])
    mesh.mail[0, 1].clear()
    assert lost
    mesh.advance(29)
    mesh.flush(0)
    assert not mesh.mail[0, 1]
    mesh.advance(5)
    ledger = mesh.task("items").source.ledger
    assert ledger.replays == 20
    mesh.advance(5)
    assert ledger.replays == 20
    mesh.settle()
    assert Counter(kept("late")) == Counter(range(20))


def test_shuffled_replays_are_known_again_further_on():
    flow = line(range(300), name="shuffled", middle=lambda s: s.flat_map(lambda v: [v, -v - 1], tasks=3), tasks=2)
    mesh = Mesh(flow, [[0], [0, 1, 2], [1, 2]], settings=SMALL)
    for _ in range(6):
        for slot in mesh.slots:
            mesh.turn(slot)
        for brain in mesh.brains.values():
            brain.on_control(protocol.Resume(9))
    mesh.settle()
    assert Counter(kept("shuffled")) == Counter([*range(300), *(-v - 1 for v in range(300))])
    assert mesh.task("items").source.ledger.replays > 0


def count_flow(values, name):
    flow = tr.Topology("counts")
    flow.source(tr.sources.items(values)).key_by(lambda value: value % 5).count(tasks=1).shuffle().sink(Kept(name))
    return flow


def test_duplicates_do_not_reach_state_but_what_followed_them_is_sent_again():
    """The outputs of a stateful task are lost behind it: its state must not count twice, its outputs must come."""
    mesh = Mesh(count_flow(range(50), "state"), [[0], [1], [2]])
    mesh.settle(without=[2])
    assert mesh.mail[1, 2]
    mesh.mail[1, 2].clear()
    mesh.brains[0].on_control(protocol.Resume(9))
    mesh.settle()
    assert mesh.task("count").deduplicator.dropped == 50
    assert Counter(kept("state")) == Counter((key, n) for key in range(5) for n in range(1, 11))
    assert mesh.closed


def test_a_duplicate_of_what_is_being_worked_on_is_not_acked_before_the_work_is_done():
    mesh = Mesh(count_flow([7], "slow"), [[0], [1], [1]])
    source = mesh.task("items").source
    mesh.turn(0)
    mesh.deliver(1)
    work = mesh.brains[1].next_work()
    mesh.task("count").mode = "thread"  # so that the replay is looked at while the first one is out
    mesh.brains[0].on_control(protocol.Resume(9))
    mesh.turn(0)
    mesh.deliver(1)
    assert mesh.brains[1].next_work() is None
    mesh.flush(1)
    mesh.deliver(0)
    assert len(source.ledger) == 1
    run_piece(work)
    mesh.brains[1].finish(work)
    mesh.settle()
    assert len(source.ledger) == 0, "the work answers for the newest incarnation"
    assert kept("slow") == [(2, 1)]


def test_an_original_and_its_replay_in_one_batch():
    mesh = Mesh(line(range(10), name="twin"), [[0], [1], [2]])
    mesh.work(0)
    mesh.brains[0].on_control(protocol.Resume(9))  # both wait in the same outbox
    mesh.settle()
    assert Counter(kept("twin")) == Counter(range(10))
    assert len(mesh.task("items").source.ledger) == 0
    assert mesh.closed


def test_a_sink_with_dead_letters_answers_duplicates_that_gave_nothing():
    flow = tr.Topology("letters")
    sunk = flow.source(tr.sources.items(range(10))).shuffle().sink(Kept("letters"), on_error="dead_letter")
    sunk.dead_letters().shuffle().sink(Kept("dead"), name="dead", tasks=2)
    mesh = Mesh(flow, [[0], [1], [1, 1]])
    mesh.turn(0)
    mesh.turn(1)
    mesh.mail[1, 0].clear()  # the acks are lost
    mesh.brains[0].on_control(protocol.Resume(9))
    mesh.settle()
    assert len(mesh.task("items").source.ledger) == 0
    assert kept("letters") == list(range(10))


def test_addressed_values_are_sent_again_to_the_same_task():
    flow = tr.Topology("addressed")
    stream = flow.source(tr.sources.items(range(40))).map(lambda v: tr.direct(v % 2, v)).direct()
    stream.process(lambda v: [v], tasks=2).shuffle().sink(Kept("addressed"), tasks=1)
    mesh = Mesh(flow, [[0], [1, 1], [1]], policy=Policy())
    mesh.turn(0)
    mesh.mail[0, 1].clear()
    mesh.brains[0].on_control(protocol.Resume(9))
    mesh.settle()
    assert Counter(kept("addressed")) == Counter(range(40))
    assert not any(brain.failed for brain in mesh.brains.values())


def test_low_water_marks_let_guards_forget():
    mesh = Mesh(line(range(30), name="marks"), [[0], [1], [1]])
    mesh.settle()
    deduplicator = mesh.task("sink").deduplicator
    assert len(deduplicator) == 30
    mesh.advance(2)
    (report,) = mesh.controls(0, protocol.Report)[-1:]
    assert report.marks == {1: 30}
    mesh.brains[1].on_control(protocol.Beat(report.marks))
    assert len(deduplicator) == 0


# -- connections that break ------------------------------------------------------------------------------------------


def test_after_a_reconnect_lost_tuples_are_not_waited_for():
    mesh = Mesh(line(range(2000), name="cut"), [[0], [1], [1]], settings=SMALL)
    mesh.settle(without=[1])
    mesh.mail[0, 1].clear()  # a window full is lost
    mesh.brains[0].on_reconnect(1)
    mesh.settle()
    assert mesh.brains[1].lost_tuples > 0
    mesh.advance(60)
    mesh.settle()
    for _ in range(3):
        mesh.advance(60)
        mesh.settle()
    assert Counter(kept("cut")) == Counter(range(2000))
    assert mesh.closed


def test_after_a_reconnect_a_lost_credit_comes_again():
    policy = Policy(chaining="off", replay="off")
    mesh = Mesh(line(range(2000), name="credit"), [[0], [1], [1]], settings=SMALL, policy=policy)
    for _ in range(30):  # until the sender has no room left for want of credits
        for slot in (0, 1):
            mesh.turn(slot)
        mesh.mail.get((1, 0), []).clear()
    before = len(kept("credit"))
    mesh.settle()
    assert len(kept("credit")) == before < 2000
    mesh.brains[1].on_reconnect(0)
    mesh.settle()
    assert sorted(kept("credit")) == list(range(2000))


def test_after_a_reconnect_a_lost_end_comes_again():
    mesh = Mesh(line(range(5), name="end"), [[0], [1], [1]])
    end = wire.CONTROL[End][0]
    while not mesh.frames(0, 1, end):
        mesh.deliver(0)
        mesh.work(0)
        mesh.flush(0)
        if not mesh.frames(0, 1, end):
            mesh.turn(1)
    mesh.mail[0, 1].clear()
    mesh.settle()
    assert not mesh.closed
    mesh.brains[0].on_reconnect(1)
    mesh.settle()
    assert mesh.closed
    assert kept("end") == list(range(5))


# -- failures and time -----------------------------------------------------------------------------------------------


def failure_of(mesh, slot=0):
    mesh.settle()
    (failure,) = mesh.controls(slot, protocol.Failure)
    return failure


def test_a_failing_operator_ends_the_query_and_the_worker_runs_no_more():
    mesh = Mesh(line([1, 0, 2], name="failing", middle=lambda s: s.map(lambda v: 1 // v)), [[0], [0], [0]])
    failure = failure_of(mesh)
    assert failure.kind == "OperatorError"
    assert "Operator 'map', task 0, failed on 0: ZeroDivisionError" in failure.message.replace("<lambda>", "map")
    assert mesh.brains[0].next_work() is None


def first_of(value):
    return value[0]


def test_a_failing_key_function_is_named_with_the_operator_that_keys():
    flow = tr.Topology("keys")
    flow.source(tr.sources.items([[1], []])).key_by(first_of).count(tasks=2, name="counts").sink(Kept("keys"))
    failure = failure_of(Mesh(flow, [[0], [0, 0], [0, 0]]))
    assert failure.kind == "OperatorError"
    assert "key_by of operator 'counts', function 'first_of', failed on []: IndexError" in failure.message
    assert "on_error" not in failure.hint


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("verb", ["count", "reduce", "process"])
def test_a_key_that_cannot_be_hashed_is_shown_with_the_operator_that_keys(tasks, verb):
    def whole(value):
        return value

    flow = tr.Topology("unhashable")
    keyed = flow.source(tr.sources.items([[1, 2]])).key_by(whole)
    args = {"count": (), "reduce": (max,), "process": (lambda key, value, state: None,)}[verb]
    getattr(keyed, verb)(*args, tasks=tasks, name="keys").sink(Kept("unhashable"))
    failure = failure_of(Mesh(flow, [[0], [0] * tasks, [0] * tasks]))
    assert failure.kind == "OperatorError"
    assert "key_by of operator 'keys'" in failure.message
    assert "gave [1, 2]" in failure.message
    assert "a list, which cannot be hashed" in failure.message
    assert "Give a tuple in place of a list" in failure.hint


def test_a_failing_grouping_function_is_named_with_the_operator_behind_it():
    def nowhere(value, tasks):
        return None

    flow = tr.Topology("custom")
    flow.source(tr.sources.items([5])).group_by(nowhere).map(str, tasks=2, name="behind").sink(Kept("custom"))
    failure = failure_of(Mesh(flow, [[0], [0, 0], [0, 0]]))
    assert failure.kind == "OperatorError"
    assert "The grouping function 'nowhere' in front of operator 'behind' failed on 5: TypeError" in failure.message


class BadRead(tr.Source):
    def partitions(self):
        return ["only"]

    def open(self, partition, offset, clock):
        return BadReader()


class BadReader(tr.Reader):
    finished = False

    def read(self, max_records):
        raise OSError("the disk is gone")


def test_a_reader_that_fails_is_named_with_what_it_does_about_single_records():
    flow = tr.Topology("reading")
    flow.source(BadRead(), name="disk").shuffle().sink(Kept("reading"))
    failure = failure_of(Mesh(flow, [[0], [0]]))
    assert failure.kind == "OperatorError"
    assert "Source 'disk', task 0, cannot read on in its partition 1: OSError: the disk is gone" in failure.message
    assert "tr.Unreadable(raw, error)" in failure.hint


def test_an_order_that_a_worker_does_not_know_is_an_error():
    mesh = Mesh(line([1], name="order"), [[0], [0], [0]])
    with pytest.raises(ProtocolError, match="The coordinator said Welcome"):
        mesh.brains[0].on_control(protocol.Welcome(1))


def test_an_address_that_does_not_exist_keeps_its_name():
    flow = tr.Topology("lost")
    flow.source(tr.sources.items([1])).map(lambda v: tr.direct(9, v)).direct().map(str, tasks=2).sink(Kept("lost"))
    assert failure_of(Mesh(flow, [[0], [0], [0, 0], [0, 0]])).kind == "RouteError"


def test_a_failing_open_is_told_and_nothing_is_said_to_be_open():
    class Stuck(Operator):
        def open(self, ctx):
            raise OSError("no such table")

        def process(self, value):
            return [value]

    flow = line([1], name="open", middle=lambda s: s.process(Stuck))
    with pytest.raises(AssertionError):
        Mesh(flow, [[0], [0], [0]])


class Ticking(Operator):
    tick_every_s = 1.0

    def process(self, value):
        return None

    def tick(self, now_s):
        return ["tick"]

    def close(self):
        return ["closed"]


def test_ticks_come_in_time_even_while_there_is_always_work():
    mesh = Mesh(line(range(10_000), name="ticks", middle=lambda s: s.process(Ticking)), [[0], [0], [0]])
    for _ in range(5):
        for _ in range(3):
            mesh.work(0, pieces=1)
            mesh.flush(0)
        mesh.clock.advance(1_000_000_000)
    assert mesh.task("items").source.read < 10_000, "the source must not have ended"
    mesh.work(0, pieces=6)
    mesh.flush(0)
    mesh.work(0, pieces=6)
    assert kept("ticks").count("tick") >= 4


def test_last_words_of_several_operators_all_arrive():
    """They hang on no root and leave at the same time of the clock; a guard behind must not take one for another."""
    flow = tr.Topology("words")
    stream = flow.source(tr.sources.items([1])).process(Ticking, tasks=2).process(Ticking, name="second")
    stream.shuffle().sink(Kept("words"), tasks=1)
    mesh = Mesh(flow, [[0], [0, 0], [1]], policy=Policy())
    mesh.settle()
    assert kept("words") == ["closed"] * 2
    assert mesh.closed


def test_a_worker_whose_task_is_out_sleeps_though_a_tick_is_due():
    mesh = Mesh(line([1], name="sleep", middle=lambda s: s.process(Ticking)), [[0], [0], [0]])
    while not (work := mesh.brains[0].next_work()).task.chain.tick_every_s:
        run_piece(work)
        mesh.brains[0].finish(work)
        mesh.flush(0)
    mesh.clock.advance(2_000_000_000)
    assert mesh.brains[0].wait_us() > 0


def test_drain_stops_reading_and_completes_what_is_open():
    mesh = Mesh(line(range(10_000), name="drain"), [[0], [1], [1]], settings=SMALL)
    mesh.turn(0)
    mesh.brains[0].on_control(protocol.Drain())
    mesh.settle()
    read = mesh.task("items").source.read
    assert 0 < read < 10_000
    assert sorted(kept("drain")) == list(range(read))
    assert mesh.closed


def test_stop_ends_with_a_last_report():
    mesh = Mesh(line(range(10), name="stop"), [[0], [0], [0]])
    mesh.settle()
    mesh.brains[0].on_control(protocol.Stop())
    assert mesh.brains[0].stopped
    assert mesh.controls(0, protocol.Report)[-1].marks == {1: 10}
