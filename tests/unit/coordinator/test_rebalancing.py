"""When the loop moves tasks, and when it leaves them: decisions on progress that is written by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import tailrace as tr
from tailrace.config import Policy, Settings
from tailrace.coordinator.migration.key_loads import KeyLoads
from tailrace.coordinator.migration.move_cost import waiting
from tailrace.coordinator.migration.rebalancing import Rebalancing
from tailrace.coordinator.steering.graphs import assignment_of, task_id
from tailrace.placement import Snapshot
from tailrace.program.program import Program
from tailrace.reports import KeyGroupReport, WorkerReport
from tailrace.topology.plan import make_plan

S = 1_000_000_000
WORKERS = 4


def counted_groups(*groups):
    return WorkerReport(1, groups=tuple(KeyGroupReport(*row) for row in groups))


class Requests:
    """Takes requests and does nothing about them, unless told that they are carried out."""

    def __init__(self):
        self.asked = []
        self.asked_keys = []
        self.idle = True

    def move_keys(self, stage, groups, why):
        self.asked_keys.append((stage, groups, why))
        return [SimpleNamespace(state="done", pause_ms=40.0, over=True)]

    def move_tasks(self, wanted, why):
        self.asked.append((list(wanted), why))
        return [SimpleNamespace(state="done", pause_ms=40.0, over=True)]


class FeedServer:
    """A brain of which the loop sees the newest progress."""

    def __init__(self, program, placement):
        self.program = program
        self.placement = placement
        self.draining = False
        self.operations = Requests()
        self.members = {slot: SimpleNamespace(open=True) for slot in range(WORKERS)}
        self.hosts = dict.fromkeys(self.members, "one")
        self.book = SimpleNamespace(recent=[])
        self.measured = self
        self.key_loads = KeyLoads(program.plan)

    def snapshot(self, placement, hosts):
        """What placement policies go by."""
        rows = self.book.recent[-1]["tasks"]
        names = [task_id(stage, task) for stage, row in enumerate(placement) for task in range(len(row))]
        return Snapshot(
            cpu_us_per_tuple={name: row["service_us"] for name, row in zip(names, rows, strict=True)},
            tuples_in_per_s={name: row["inPerSecond"] for name, row in zip(names, rows, strict=True)},
            assignment=assignment_of(placement, hosts),
        )

    def show(self, utilisation, service_us, per_s=200.0, inbox=0):
        """Report on the operator's tasks; what is not given is usual."""
        rows = []
        for stage, row in enumerate(self.placement):
            for task, slot in enumerate(row):
                busy = (utilisation.get(slot, 0.4), service_us.get(slot, 2000.0)) if stage == 1 else (0.02, 50.0)
                rows.append(
                    {
                        "operators": [spec.name for spec in self.program.plan.stages[stage].operators],
                        "task": task, "worker": slot, "runs": "thread" if stage == 1 else "inline",
                        "inPerSecond": per_s, "utilisation": busy[0], "service_us": busy[1],
                        "inbox": inbox if slot in utilisation else 0,
                    }
                )  # fmt: skip
        self.book.recent.append({"tasks": rows})


def desk_of(policy="spread", *, tasks=WORKERS, **settings):
    flow = tr.Topology("looked")
    stream = flow.source(tr.sources.rate(100), tasks=1).shuffle().map(str, tasks=tasks, name="work")
    stream.shuffle().sink(tr.sinks.discard(), tasks=1)
    made = Policy(chaining="off", rebalance=policy)
    program = Program(make_plan(flow, chaining=False), made, Settings(**settings))
    desk = FeedServer(program, [[0], [task % WORKERS for task in range(tasks)], [1]])
    return desk, Rebalancing(program)


def test_an_even_load_is_left_alone():
    desk, loop = desk_of()
    for second in range(5):
        desk.show({}, {})
        loop.look(second * S, desk)
    assert desk.operations.asked == []
    assert loop.row()["decision"] == "stay"


@pytest.mark.parametrize(("policy", "tasks"), [("spread", 4), ("stromax", 12), ("turbostream", 4), ("auto", 4)])
def test_a_slow_worker_is_relieved_when_two_looks_agree(policy, tasks):
    """StroMAX fills nodes up to their share and no further: with one task per worker it has nowhere to put one more."""
    desk, loop = desk_of(policy, tasks=tasks)
    desk.show({2: 1.0}, {2: 8000.0}, inbox=300)
    loop.look(1 * S, desk)
    assert desk.operations.asked == []
    assert "if the next look agrees" in loop.row()["decision"]
    desk.show({2: 1.0}, {2: 8000.0}, inbox=400)
    loop.look(2 * S, desk)
    ((wanted, why),) = desk.operations.asked
    before = desk.placement[1].count(2)
    for stage, task, slot in wanted:
        desk.placement[stage][task] = slot
    assert desk.placement[1].count(2) < before
    assert "worker 2 at 0.25 of the usual speed" in why


def test_after_a_move_comes_a_cool_down_and_an_emptied_worker_is_not_filled_again_at_once():
    desk, loop = desk_of(rebalance_cooldown_s=5.0)
    for second in (1, 2):
        desk.show({2: 1.0}, {2: 8000.0}, inbox=300)
        loop.look(second * S, desk)
    (wanted, _) = desk.operations.asked.pop()
    for stage, task, slot in wanted:
        desk.placement[stage][task] = slot
    for second in range(3, 25):
        desk.show({}, {})
        loop.look(second * S, desk)
    assert all(slot != 2 for wanted, _ in desk.operations.asked for _, _, slot in wanted)


def test_a_load_that_no_move_makes_lighter_is_no_reason_to_move():
    desk, loop = desk_of()
    for second in range(4):
        desk.show(dict.fromkeys(range(WORKERS), 1.0), {}, inbox=5000)
        loop.look(second * S, desk)
    assert desk.operations.asked == []


def test_lighter_groups_leave_the_task_of_a_hot_key_and_the_reason_is_told():
    flow = tr.Topology("hot")
    counted = flow.source(tr.sources.rate(100), tasks=1).key_by(str).count(tasks=WORKERS, name="work")
    counted.shuffle().sink(tr.sinks.discard(), tasks=1)
    program = Program(
        make_plan(flow, chaining=False), Policy(chaining="off", rebalance="spread"), Settings(key_groups=8)
    )
    desk, loop = FeedServer(program, [[0], [0, 1, 2, 3], [1]]), Rebalancing(program)
    desk.operations.key_tasks = lambda stage: [0, 0, 1, 1, 2, 2, 3, 3]
    for second in (1, 2):
        desk.show({0: 1.0, 1: 0.13, 2: 0.13, 3: 0.13}, {}, inbox=500)
        desk.key_loads.add(counted_groups([0, 0, 62], [0, 1, 10], [0, 2, 9], [0, 4, 9], [0, 6, 10]))
        loop.look(second * S, desk)
    assert desk.operations.asked == []
    ((stage, groups, why),) = desk.operations.asked_keys
    assert (stage, set(groups)) == (1, {1})
    assert groups[1] in {1, 2}
    assert "key group 0 of work brings 62% of its input; without 1 lighter group(s) its task 0" in why
    assert loop.row()["decision"] == "move 1 key group(s)"
    desk.show({0: 1.0, 1: 0.13, 2: 0.13, 3: 0.13}, {}, inbox=500)
    loop.look(3 * S, desk)
    assert loop.row()["why"] == "tasks have moved a moment ago"


def test_off_is_off():
    desk, loop = desk_of("off")
    for second in range(4):
        desk.show({2: 1.0}, {2: 8000.0}, inbox=300)
        loop.look(second * S, desk)
    assert desk.operations.asked == []
    assert loop.row() is None


def test_queues_are_those_of_one_server():
    assert waiting(0.5) == pytest.approx(0.5)
    assert waiting(0.9) == pytest.approx(8.1)
    assert waiting(5.0) == waiting(0.98)
