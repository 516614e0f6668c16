"""Tasks of one worker that take from one queue: no one idles beside a long queue, and all end together."""

from __future__ import annotations

import pytest
from tests.unit.worker.mesh import Mesh

import tailrace as tr
from tailrace.config import Policy, Settings
from tailrace.receiving.shared import SharedQueueError
from tailrace.testing import InProcess, TestSink, chaos


def flow_of(count=120, tasks=4, **options):
    flow = tr.Topology("shared")
    numbers = flow.source(tr.sources.items(range(count), partitions=2), tasks=2).shuffle()
    numbers.map(lambda value: value, tasks=tasks, name="work", **options).shuffle().sink(
        TestSink(), name="out", tasks=1
    )
    return flow


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("replay", ["off", "adaptive"])
def test_all_values_pass_once_and_all_mates_end(seed, replay):
    policy = Policy(inbox="shared", replay=replay, chaining="off")
    small = Settings(inbox_tuples=64, outbox_tuples=16, batch_max=4)
    with InProcess(flow_of(), workers=2, policy=policy, settings=small, seed=seed) as query:
        result = query.finish()
    assert sorted(result.values()) == list(range(120))


def test_a_worker_lost_in_between_loses_nothing():
    policy = Policy(inbox="shared", chaining="off")
    with InProcess(flow_of(600), workers=3, policy=policy, settings=Settings(max_pending=64), seed=3) as query:
        for _ in range(3):
            query.turns(2)
            query.kill(query.brain.placement[1][0])
        result = query.finish()
    assert set(result.values()) == set(range(600))


def test_an_idle_task_takes_what_came_for_a_busy_one():
    """Four tasks in threads of their own; three are busy, and the fourth takes the rest of the queue."""
    mesh = Mesh(flow_of(12, blocking=True), [[0, 0], [1] * 4, [0]], policy=Policy(inbox="shared", chaining="off"))
    mesh.settle(without=[1])
    brain = mesh.brains[1]
    mesh.deliver(1)
    out = []
    while (work := brain.next_work()) is not None:
        out.append(work)
    busy, idle = out[:-1], out[-1]
    assert len({work.task for work in out}) == 4  # one piece each: nothing waits in front of a busy thread
    done = 0
    while idle is not None:
        assert idle.task is out[-1].task
        idle.run()
        done += len(idle.batch.values)
        brain.finish(idle)
        idle = brain.next_work()
    assert done + sum(len(work.batch.values) for work in busy) == 12
    assert sum(row.inbox for row in rows(brain)) == 0


def rows(brain):
    brain.control_out.clear()
    brain.deployment.reporter.report()
    return [row for row in brain.control_out[-1].report.tasks if row.latency is not None]


def test_operators_with_keys_and_sinks_keep_their_own_queues():
    flow = tr.Topology("keyed")
    flow.source(tr.sources.items(range(20))).key_by(lambda v: v % 3).count(tasks=3, name="counts").sink(
        TestSink(), tasks=2, name="out"
    )
    with InProcess(flow, policy=Policy(inbox="shared")) as query:
        assert not any(task.group for cell in query._cells.values() for task in cell.brain.tasks)
        assert len(query.finish().values()) == 20
    with pytest.raises(SharedQueueError, match=r"'counts' \(count\) is fed by fields"):
        InProcess(flow, policy=Policy(inbox="shared:counts"))
    with pytest.raises(SharedQueueError, match="'count'"):
        InProcess(flow, policy=Policy(inbox="shared:count"))


def test_only_the_operators_named_share():
    with InProcess(flow_of(), policy=Policy(inbox="shared:work", chaining="off")) as query:
        members = [task.name for cell in query._cells.values() for task in cell.brain.tasks if task.group]
        assert members == ["work"] * 4


def test_a_shared_queue_shortens_the_tail_of_uneven_service():
    tails = {}
    for inbox in ("per_task", "shared"):
        with chaos.Knobs() as knobs:

            async def serve(value, knobs=knobs):
                await knobs.wait_async(0.05 if value % 23 == 0 else 0.002)
                return value

            flow = tr.Topology("uneven")
            numbers = flow.source(tr.sources.rate(600, count=900)).shuffle()
            numbers.map(serve, tasks=4, concurrency=1).shuffle().sink(TestSink(), name="out", tasks=1)
            with InProcess(flow, policy=Policy(inbox=inbox)) as query:
                query.finish()
                tails[inbox] = query.brain.book.latency_total.percentile(0.9)
    assert tails["shared"] < 0.9 * tails["per_task"]
