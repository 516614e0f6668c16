"""Tasks of several workers of a node that take from one queue: nothing lost under kills, ends once, claims go back."""

from __future__ import annotations

import collections

import pytest
from tests.unit.worker.mesh import Mesh

import tailrace as tr
from tailrace.batch import Batch, numbers
from tailrace.config import Policy, Settings
from tailrace.sending.outbox import Outbox
from tailrace.testing import InProcess, TestSink
from tailrace.worker.exchange.shared_queues import RemoteConsumer
from tailrace.worker.exchange.sharing import share, unshare

SHARED = Policy(inbox="shared", chaining="off")
SMALL = Settings(inbox_tuples=64, outbox_tuples=16, batch_max=4, max_pending=64)
SLICE_NS = 2_000_000


def flow_of(count=120, tasks=4, work=lambda value: value, **options):
    flow = tr.Topology("shared")
    numbers = flow.source(tr.sources.items(range(count), partitions=2), tasks=2).shuffle()
    numbers.map(work, tasks=tasks, name="work", **options).shuffle().sink(TestSink(), name="out", tasks=1)
    return flow


def took(query):
    """How many tuples each task of the shared stage took, by worker."""
    found = collections.Counter()
    for cell in query._cells.values():
        for task in cell.brain.tasks:
            if task.stage.head.name == "work":
                found[cell.brain.slot] += task.tuples_in
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("replay", ["off", "fixed:30s", "adaptive"])
def test_all_values_pass_once_over_the_workers_of_a_node_and_all_tasks_end(seed, replay):
    policy = Policy(inbox="shared", replay=replay, chaining="off")
    with InProcess(flow_of(400), workers=3, nodes=1, policy=policy, settings=SMALL, seed=seed) as query:
        assert len(set(query.brain.placement[1])) > 1
        (owner,) = set(query.brain.queues[1])
        assert f"of worker(s) 0, 1, 2 take from one queue at worker {owner}" in query.explain()
        result = query.finish()
        assert len(took(query)) > 1
    assert sorted(result.values()) == list(range(400))


@pytest.mark.parametrize("routing", ["latency", "load_aware", "shortest_delay"])
def test_it_goes_with_rules_that_balance(routing):
    policy = Policy(inbox="shared", routing=routing, chaining="off")
    with InProcess(flow_of(400), workers=4, nodes=2, policy=policy, settings=SMALL) as query:
        assert sorted(query.finish().values()) == list(range(400))


async def awaited(value):
    return value


@pytest.mark.parametrize("options", [{"work": awaited, "concurrency": 3}, {"blocking": True}])
def test_it_goes_with_operators_that_wait(options):
    with InProcess(flow_of(300, **options), workers=3, nodes=1, policy=SHARED, settings=SMALL) as query:
        assert sorted(query.finish().values()) == list(range(300))


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 51])  # 51: the owner hands out before it is known to be replaced
def test_killing_owners_and_others_loses_nothing_and_doubles_nothing(seed):
    flow = tr.Topology("exact")
    numbers = flow.source(tr.sources.items(range(900), partitions=2), tasks=2).shuffle()
    doubled = numbers.flat_map(lambda v: [v % 7, v % 5], tasks=4, name="work")
    doubled.key_by(lambda v: v).count(tasks=1, name="counts").sink(TestSink(), name="out", tasks=1)
    with InProcess(flow, workers=6, nodes=1, policy=SHARED, settings=SMALL, seed=seed) as query:
        owner = query.brain.queues[1][0]
        first, second, third = (slot for slot in query.brain.placement[1] if slot != owner)
        for victim in (first, owner, second, owner, third, first):
            query.turns(3)
            query.kill(victim)
        result = query.finish()
    wanted = collections.Counter(key for v in range(900) for key in (v % 7, v % 5))
    assert sorted(result.values()) == sorted((key, n + 1) for key, total in wanted.items() for n in range(total))
    assert query.brain.restarts == 6


def mesh_of(count, replay="fixed:30s", **options):
    """Sources in worker 0; tasks 0 and 1 in the owner, worker 1; task 2 in worker 2; the sink in worker 0."""
    flow, policy = flow_of(count, tasks=3, **options), Policy(inbox="shared", replay=replay, chaining="off")
    return Mesh(flow, [[0, 0], [1, 1, 2], [0]], policy=policy, queues={1: [1, 1, 1]})


def test_without_tracking_a_lost_workers_claims_go_back_to_the_front_of_the_queue():
    mesh = mesh_of(40, replay="off")
    mesh.turn(0)
    mesh.deliver(1)
    mesh.flush(1)
    group = mesh.brains[1].deployment.worker.groups[1]
    assert [claim[1] for claim in group.consumers[0].claims] == [1]
    assert mesh.mail[1, 2]  # which is lost with its reader
    mesh.replace(2)
    mesh.settle()
    assert mesh.closed
    assert sum(mesh.task("work", index).tuples_in for index in range(3)) == 40


@pytest.mark.parametrize("replay", ["off", "fixed:30s"])
def test_ends_do_not_wait_for_a_lost_worker(replay):
    mesh = mesh_of(10, replay=replay)
    mesh.settle(without=[2])
    mesh.replace(2)
    mesh.settle()
    assert mesh.closed


def test_a_seat_is_given_no_more_than_one_piece_until_that_is_done():
    mesh = mesh_of(40, blocking=True)
    mesh.turn(0)
    mesh.deliver(1)
    (consumer,) = mesh.brains[1].deployment.worker.groups[1].consumers
    assert [claim[1] for claim in consumer.claims] == [1]
    mesh.flush(1)
    mesh.turn(2)  # works it off and says so
    before = consumer.claims[0]
    mesh.deliver(1)
    assert [claim[1] for claim in consumer.claims][:1]
    assert consumer.claims[0] is not before


def test_the_owner_ends_the_others_once_all_is_done():
    mesh = mesh_of(10)
    mesh.settle(without=[2])
    owner, away = mesh.brains[1], mesh.task("work", 2)
    assert not away.closed
    assert not any(task.closed for task in owner.tasks)  # the end waits for what the other worker has claimed
    mesh.settle()
    assert mesh.closed


# -- consumers ---------------------------------------------------------------------------------------------------------


def seat_of(concurrency=None):
    return RemoteConsumer(Outbox(0, 1, 0, 1024), concurrency)


def give(consumer, count, now_ns):
    arrivals = []
    consumer.give(arrivals, Batch([0] * count, None, numbers()), now_ns)
    return arrivals


def test_hand_outs_grow_while_they_take_less_than_a_slice_and_a_second_one_lies_ready():
    consumer, now_ns, sizes = seat_of(), 0, []
    for _ in range(8):
        sizes.append(consumer.room)
        give(consumer, consumer.room, now_ns)
        now_ns += 100_000 + 1000 * sizes[-1]  # the way there and back, and a microsecond of work for each
        consumer.finish(sizes[-1], now_ns, SLICE_NS)
    assert sizes[:6] == [1, 2, 4, 8, 16, 32]
    assert sizes == sorted(set(sizes))
    give(consumer, consumer.room, now_ns)
    assert consumer.room > 0
    give(consumer, consumer.room, now_ns)
    assert consumer.room == 0


def test_slow_work_is_handed_out_singly():
    consumer = seat_of()
    for now_ns in range(0, 10**9, 10**8):
        assert consumer.room == 1
        give(consumer, 1, now_ns)
        assert consumer.room == 0
        assert len(consumer.finish(1, now_ns + 10**7, SLICE_NS)) == 1


def test_an_awaited_operator_is_given_as_many_as_it_awaits_at_once():
    consumer = seat_of(concurrency=5)
    give(consumer, 3, 0)
    assert consumer.room == 2
    assert consumer.finish(2, 10, SLICE_NS) == []  # part of a claim
    assert len(consumer.finish(1, 20, SLICE_NS)) == 1
    assert consumer.room == 5


def test_a_seat_that_is_left_gives_its_claims_newest_first_and_hears_no_late_word():
    consumer = seat_of(concurrency=9)
    first, second = give(consumer, 2, 0), give(consumer, 3, 1)
    first.append("first")
    second.append("second")
    assert consumer.leave() == [["second"], ["first"]]
    assert not consumer.box.values
    assert consumer.finish(5, 2, SLICE_NS) == []
    give(consumer, 2, 3)
    assert len(consumer.finish(2, 4, SLICE_NS)) == 1


# -- at run time -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_changing_over_back_and_forth_loses_and_doubles_nothing(seed):
    with InProcess(flow_of(1500), workers=2, policy=Policy(chaining="off"), settings=SMALL, seed=seed) as query:
        changes = 0
        for turn in range(60):
            query.turns(1)
            for cell in query._cells.values():
                worker = cell.brain.deployment.worker
                changes += share(worker, 1, cell.brain.deployment.delivery) if turn % 2 else unshare(worker, 1)
        assert changes > 50
        assert sorted(query.finish().values()) == list(range(1500))
