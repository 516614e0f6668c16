"""The coordinator's brain: who may join, in which order a lost worker is replaced, and how a query ends."""

from __future__ import annotations

import itertools
import logging

import pytest

import tailrace as tr
from tailrace import protocol
from tailrace.config import Policy, Settings
from tailrace.coordinator.brain import CoordinatorBrain
from tailrace.coordinator.deployment import deal_partitions
from tailrace.coordinator.errors import (
    DrainTimeoutError,
    QueryError,
    StartError,
    VersionMismatchError,
    WorkerLostError,
)
from tailrace.coordinator.incoming import log_lines
from tailrace.program.errors import OperatorError
from tailrace.program.program import Program
from tailrace.reports import TaskReport, WorkerReport
from tailrace.routing.fixed import RouteError
from tailrace.topology.plan import make_plan
from tailrace.transport import codec
from tailrace.version import __version__

S = 1_000_000_000
SEQUENCE = itertools.count(1)
SETTINGS = Settings(register_timeout_s=90.0, lease_s=10.0, drain_timeout_s=60.0, progress_s=1.0)


def report(marks, *tasks):
    return protocol.Report(WorkerReport(next(SEQUENCE), tasks), marks)


class Office:
    """A coordinator's brain with workers played by hand: each connection's orders are kept apart."""

    def __init__(self, workers=3, settings=SETTINGS):
        flow = tr.Topology("office")
        flow.source(tr.sources.items(range(10), partitions=2), tasks=2).sink(tr.sinks.discard(), tasks=3)
        self.plan = make_plan(flow)
        program = Program(self.plan, Policy(), settings)
        self.brain = CoordinatorBrain("query", program, workers, deal_partitions(self.plan), "3.11.4")
        self.now_ns = 0
        self.orders = {}
        self.slots = {}
        self.launches = [0] * workers
        self.tick()

    def tick(self, seconds=0.0):
        self.now_ns += int(seconds * S)
        self.brain.tick(self.now_ns)
        self._carry()

    def _carry(self):
        while self.brain.out:
            connection, message = self.brain.out.popleft()
            message = protocol.decode_from_coordinator(protocol.encode(message))
            self.orders.setdefault(connection, []).append(message)

    def say(self, connection, message):
        message = protocol.decode_from_worker(protocol.encode(message))
        self.brain.on_message(connection, self.slots.get(connection, -1), message, self.now_ns)
        self._carry()

    def join(self, slot, *, launch=None, connection=None, version=__version__, python="3.11.9"):
        if launch is None:
            self.launches[slot] += 1
            launch = self.launches[slot]
        connection = connection or slot * 100 + launch
        self.slots[connection] = slot
        peer = protocol.Peer(slot, 0, f"host-{slot}", ("127.0.0.1", connection))
        self.say(connection, protocol.Register(slot, launch, 1, f"executor-{slot}", peer, version, python))
        return connection

    def leave(self, connection):
        self.brain.on_gone(connection, self.now_ns)
        self._carry()

    def taken(self, connection, *, beats=False):
        """The orders of a connection since the last look; beats left out."""
        found = self.orders.pop(connection, [])
        return [each for each in found if beats or not isinstance(each, protocol.Beat)]

    def names(self, connection):
        return [type(each).__name__ for each in self.taken(connection)]

    def running(self):
        connections = [self.join(slot) for slot in range(len(self.launches))]
        for connection in connections:
            self.say(connection, protocol.Deployed())
        for connection in connections:
            self.taken(connection)
        assert self.brain.state == "running"
        return connections


@pytest.fixture
def office():
    return Office()


# -- joining ---------------------------------------------------------------------------------------------------------


def test_nothing_is_deployed_until_all_have_registered_and_nothing_goes_until_all_are_open(office):
    first, second = office.join(0), office.join(2)
    assert office.names(first) == ["Welcome"]
    assert office.brain.state == "registering"
    third = office.join(1)
    assert office.names(third) == ["Welcome", "Deploy"]
    assert office.names(first) == ["Deploy"]
    assert office.brain.state == "deploying"
    office.say(first, protocol.Deployed())
    office.say(second, protocol.Deployed())
    assert office.names(first) == []
    office.say(third, protocol.Deployed())
    assert office.brain.state == "running"
    assert [office.names(each) for each in (first, second, third)] == [["Go"], ["Welcome", "Deploy", "Go"], ["Go"]]


def test_a_deployment_says_everything_a_worker_needs(office):
    connections = [office.join(slot) for slot in range(3)]
    (deploy,) = [each for each in office.taken(connections[0]) if isinstance(each, protocol.Deploy)]
    assert [peer.slot for peer in deploy.peers] == [0, 1, 2]
    assert {peer.attempt for peer in deploy.peers} == {1}
    assert [len(row) for row in deploy.placement] == [stage.tasks for stage in office.plan.stages]
    assert {slot for row in deploy.placement for slot in row} <= {0, 1, 2}
    assert deploy.partitions == [[1, 0, 0, "0", 0], [2, 0, 1, "1", 0]]
    assert isinstance(codec.loads(deploy.program), Program)


def test_a_slot_out_of_range_is_refused(office):
    office.launches += [0]
    connection = office.join(3)
    assert office.names(connection) == ["Refused"]


@pytest.mark.parametrize("launch", [1, 2])
def test_an_older_or_equal_start_is_refused(office, launch):
    office.join(0, launch=2)
    late = office.join(0, launch=launch, connection=77)
    (answer,) = office.taken(late)
    assert isinstance(answer, protocol.Refused)
    assert "later start" in answer.reason
    assert office.brain.members[0].attempt == 1


def test_a_newer_start_before_the_deployment_takes_the_slot(office):
    office.join(0)
    again = office.join(0)
    assert office.taken(again) == [protocol.Welcome(2)]
    office.join(1)
    office.join(2)
    assert office.names(again) == ["Deploy"]


@pytest.mark.parametrize("other", [{"version": "0.0.1"}, {"python": "3.10.4"}])
def test_another_version_is_refused_and_ends_the_query(office, other):
    well = office.join(0)
    bad = office.join(1, **other)
    assert office.names(bad) == ["Refused"]
    assert office.names(well) == ["Welcome", "Stop"]
    assert isinstance(office.brain.error, VersionMismatchError)
    assert "executor-1 on host-1" in office.brain.error.message


def test_another_patch_release_of_python_will_do(office):
    assert office.names(office.join(0, python="3.11.0")) == ["Welcome"]


def test_an_ended_query_takes_no_one(office):
    office.brain.stop_now()
    assert office.names(office.join(0)) == ["Refused"]


# -- replacing -------------------------------------------------------------------------------------------------------


def test_a_lost_worker_is_replaced_in_order(office):
    """All refuse the old one, then the new one is deployed, then it goes and the others send again."""
    first, second, third = office.running()
    office.leave(second)
    successor = office.join(1)
    assert office.taken(successor) == [protocol.Welcome(2)]
    for other in (first, third):
        (order,) = office.taken(other)
        assert (type(order), order.peer.slot, order.peer.attempt) == (protocol.PeerUp, 1, 2)
    office.say(first, protocol.PeerSeen(1, 2))
    assert office.names(successor) == []
    office.say(third, protocol.PeerSeen(1, 1))  # of the one before it: not what is waited for
    assert office.names(successor) == []
    office.say(third, protocol.PeerSeen(1, 2))
    assert office.names(successor) == ["Deploy"]
    assert office.names(first) == []
    office.say(successor, protocol.Deployed())
    assert office.names(successor) == ["Go"]
    assert office.taken(first) == office.taken(third) == [protocol.Resume(1)]
    assert office.brain.restarts == 1


def test_what_a_replaced_worker_says_is_not_heard(office):
    _, second, _ = office.running()
    office.leave(second)
    office.join(1)
    office.say(second, report({1: 99}))
    office.say(second, protocol.Failure("OperatorError", "late", ""))
    for task in range(2):
        office.say(second, protocol.TaskDone(0, task))
    assert office.brain.error is None
    assert office.brain._marks == {}
    assert office.brain._tasks_done == set()


def test_a_worker_lost_while_it_is_waited_for_is_waited_for_no_longer(office):
    first, second, third = office.running()
    office.leave(second)
    successor = office.join(1)
    office.taken(successor)
    office.say(first, protocol.PeerSeen(1, 2))
    office.leave(third)
    assert office.names(successor) == ["Deploy"]


def test_two_lost_at_once_learn_of_each_other_and_nobody_sends_before_a_resume(office):
    first, second, third = office.running()
    office.leave(second)
    office.leave(third)
    two = office.join(1)
    office.say(first, protocol.PeerSeen(1, 2))
    assert office.names(two) == ["Welcome", "Deploy"]
    three = office.join(2)  # while the other is still opening
    (order,) = office.taken(two)
    assert (type(order), order.peer.slot, order.peer.attempt) == (protocol.PeerUp, 2, 3)
    office.say(first, protocol.PeerSeen(2, 3))
    assert office.names(three) == ["Welcome"]
    office.say(two, protocol.PeerSeen(2, 3))
    deploy, held = office.taken(three)
    assert {peer.slot: peer.attempt for peer in deploy.peers} == {0: 1, 1: 2, 2: 3}
    assert (type(held), held.peer.slot, held.peer.attempt) == (protocol.PeerUp, 1, 2)
    office.say(three, protocol.Deployed())
    assert office.taken(two) == [protocol.Resume(2)]
    office.say(two, protocol.Deployed())
    assert office.names(two) == ["Go"]
    assert office.taken(three) == [protocol.Go(), protocol.Resume(1)]


def test_a_worker_lost_while_all_are_opening(office):
    first, second, third = (office.join(slot) for slot in range(3))
    for connection in (first, second, third):
        office.taken(connection)
    office.say(first, protocol.Deployed())
    office.leave(second)
    successor = office.join(1)
    assert office.names(first) == office.names(third) == ["PeerUp"]
    office.say(first, protocol.PeerSeen(1, 2))
    office.say(third, protocol.PeerSeen(1, 2))
    assert office.names(successor) == ["Welcome", "Deploy"]
    office.say(successor, protocol.Deployed())
    assert office.taken(first) == [protocol.Resume(1)]
    office.say(third, protocol.Deployed())
    assert office.brain.state == "running"
    assert office.names(first) == ["Go"]
    assert office.names(third) == ["Resume", "Go"]


def test_a_successor_starts_from_what_is_complete(office):
    first, second, third = office.running()
    office.say(first, report({1: 4, 2: 9}))
    office.say(third, report({1: 2}))  # a mark never goes back
    office.leave(second)
    successor = office.join(1)
    office.say(first, protocol.PeerSeen(1, 2))
    office.say(third, protocol.PeerSeen(1, 2))
    (deploy,) = [each for each in office.taken(successor) if isinstance(each, protocol.Deploy)]
    assert deploy.partitions == [[1, 0, 0, "0", 4], [2, 0, 1, "1", 9]]
    assert deploy.marks == {1: 4, 2: 9}


# -- time ------------------------------------------------------------------------------------------------------------


def test_leases_are_prolonged_with_the_marks(office):
    first, *_ = office.running()
    office.say(first, report({1: 4}))
    office.tick(1.0)
    assert office.taken(first, beats=True)[-1] == protocol.Beat({1: 4})


def test_too_few_workers_in_time(office):
    office.join(0)
    office.tick(90.0)
    assert office.brain.error is None
    office.tick(0.1)
    assert isinstance(office.brain.error, StartError)
    assert "3 workers were expected within 90 s; 1 registered" in office.brain.error.message


def keep_alive(office, connections, seconds):
    for _ in range(int(seconds)):
        for connection in connections:
            office.say(connection, report({}))
        office.tick(1.0)


def test_a_lost_worker_that_does_not_come_back(office):
    first, second, third = office.running()
    office.leave(second)
    keep_alive(office, [first, third], 90)
    assert office.brain.error is None
    keep_alive(office, [first, third], 1)
    assert isinstance(office.brain.error, WorkerLostError)
    assert "Worker 1 (executor executor-1 on host-1)" in office.brain.error.message
    assert "Stop" in office.names(first)


def test_a_silent_worker_counts_as_lost(office):
    first, second, third = office.running()
    keep_alive(office, [first, third], 21)
    assert [member.alive for member in office.brain.members.values()] == [True, False, True]
    office.taken(second)
    office.tick(1.0)
    assert office.taken(second, beats=True) == [], "its lease must run out"


# -- ending ----------------------------------------------------------------------------------------------------------


def test_it_ends_when_every_task_is_done(office):
    first, second, third = office.running()
    tasks = [(stage.id, index) for stage in office.plan.stages for index in range(stage.tasks)]
    for stage, task in tasks[:-1]:
        office.say(first, protocol.TaskDone(stage, task))
    assert office.brain.state == "running"
    office.say(second, protocol.TaskDone(*tasks[-1]))
    assert office.brain.state == "ended"
    assert office.brain.error is None
    assert office.names(third) == ["Stop"]


def test_draining_reaches_all_and_those_who_join_later(office):
    first, second, third = office.running()
    office.leave(second)
    office.brain.drain(office.now_ns)
    office._carry()
    assert office.names(first) == office.names(third) == ["Drain"]
    successor = office.join(1)
    office.say(first, protocol.PeerSeen(1, 2))
    office.say(third, protocol.PeerSeen(1, 2))
    office.say(successor, protocol.Deployed())
    assert office.names(successor) == ["Welcome", "Deploy", "Go", "Drain"]


def test_draining_while_workers_are_opening(office):
    connections = [office.join(slot) for slot in range(3)]
    office.brain.drain(office.now_ns)
    for connection in connections:
        office.say(connection, protocol.Deployed())
    assert all("Drain" in office.names(connection) for connection in connections)


def test_draining_before_the_deployment_ends_at_once(office):
    first = office.join(0)
    office.brain.drain(office.now_ns)
    office._carry()
    assert office.brain.state == "ended"
    assert office.names(first) == ["Welcome", "Stop"]


def test_draining_has_a_limit(office):
    connections = office.running()
    office.brain.drain(office.now_ns)
    keep_alive(office, connections, 60)
    assert office.brain.error is None
    keep_alive(office, connections, 1)
    assert isinstance(office.brain.error, DrainTimeoutError)


@pytest.mark.parametrize(
    ("kind", "error"), [("OperatorError", OperatorError), ("RouteError", RouteError), ("ZeroDivisionError", QueryError)]
)
def test_a_workers_failure_ends_the_query_under_its_own_name(office, kind, error):
    first, second, _ = office.running()
    office.say(second, protocol.Failure(kind, "what happened", "what to do"))
    assert type(office.brain.error) is error
    assert str(office.brain.error) == "what happened\nwhat to do"
    assert office.names(first) == ["Stop"]
    office.say(first, protocol.Failure(kind, "something else", ""))
    assert office.brain.error.message == "what happened"


def test_values_are_taken_only_when_their_sink_has_them(office):
    first, second, _ = office.running()
    office.say(first, protocol.Collected("sink", 0, codec.dumps([1, 2]), 7))
    assert office.names(first) == []
    (item,) = office.brain.received
    assert (item.operator, item.loaded(), item.serial) == ("sink", [1, 2], 7)
    office.brain.taken({item.connection: item.serial})
    office.tick()
    assert office.taken(first) == [protocol.Taken(7)]
    assert office.taken(second) == []


def test_values_that_the_driver_cannot_read_are_named(office):
    first, *_ = office.running()
    office.say(first, protocol.Collected("sink", 0, b"not a pickle"))
    (item,) = office.brain.received
    with pytest.raises(QueryError, match="'sink'"):
        item.loaded()


def test_logs_are_bounded_and_what_is_dropped_is_counted(office, caplog):
    first, *_ = office.running()
    for number in range(1500):
        office.say(first, protocol.LogLine(20, "op", 0, str(number)))
    assert len(office.brain.logs) == 1000
    lines, dropped = office.brain.logs.take()
    assert [line.text for line in lines] == [str(number) for number in range(500, 1500)]
    assert dropped == 500
    log_lines(lines[:2], dropped)
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "500 log lines" in warning
    assert office.brain.logs.take() == ([], 0)


def test_without_any_logging_set_up_lines_go_to_stderr(monkeypatch, capsys):
    monkeypatch.setattr(logging.getLogger("tailrace.operator.bare"), "propagate", False)
    log_lines([protocol.LogLine(20, "bare", 3, "printed"), protocol.LogLine(10, "bare", 3, "for debugging")], 0)
    assert capsys.readouterr().err == "bare[3] printed\n"


def test_an_error_after_the_end_is_kept_unless_there_is_one(office):
    office.running()
    office.brain.stop_now()
    late, later = QueryError("late"), QueryError("later")
    office.brain.fail(late)
    assert office.brain.error is None
    office.brain.fail_even_late(late)
    office.brain.fail_even_late(later)
    assert office.brain.error is late


def test_a_drain_that_takes_too_long_says_what_is_open(office):
    first, *rest = office.running()
    row = TaskReport(0, 1, "inline", pending=1234)
    office.say(first, protocol.TaskDone(0, 0))
    office.brain.drain(office.now_ns)
    keep_alive(office, [first, *rest], 60)
    office.say(first, report({}, row))
    office.tick(1.0)
    assert isinstance(office.brain.error, DrainTimeoutError)
    assert "1,234 roots are not complete (1,234 of items[1])" in office.brain.error.message
    assert "4 tasks are not done (items[1], discard[0], discard[1], discard[2])" in office.brain.error.message
