"""What the coordinator makes of stuck user code: rows of the progress, an error that names who has not opened."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.test_brain import SEQUENCE, Office

from tailrace import protocol
from tailrace.coordinator.errors import DrainTimeoutError, QueryError, StartError, WorkerLostError
from tailrace.coordinator.reporting.explain import explain
from tailrace.coordinator.reporting.stuck import ROWS_MAX, stuck_rows, waited_for
from tailrace.program.errors import CloseError
from tailrace.reports import StuckCall


def row(operator="slow", task=1, seconds=7.5, stack='  File "job.py", line 3, in lookup'):
    return StuckCall(operator, task, seconds, stack)


def stuck(*calls):
    return protocol.Stuck(next(SEQUENCE), calls)


def test_rows_have_the_worker_and_the_longest_comes_first():
    office = Office()
    connections = office.running()
    office.say(connections[1], stuck(row()))
    office.say(connections[2], stuck(row("slower", 0, 9.0)))
    office.tick(3.0)
    found = office.brain.book.recent[-1]["stuck"]
    assert [(each["operator"], each["task"], each["worker"], each["seconds"]) for each in found] == [
        ("slower", 0, 2, 9.0),
        ("slow", 1, 1, 7.5),
    ]
    shown = explain(office.brain.program, office.brain, "a test")
    assert "slow[1] on worker 1: has not come back for 7.5 s" in shown
    assert "line 3, in lookup" in shown
    office.say(connections[2], stuck())
    office.leave(connections[1])
    assert stuck_rows(office.brain.members) == []


def test_the_last_word_holds_in_whichever_order_it_is_heard():
    office = Office()
    connection = office.running()[0]
    before, after = stuck(row()), stuck()
    office.say(connection, after)
    office.say(connection, before)
    assert stuck_rows(office.brain.members) == []


def test_rows_have_a_bound():
    office = Office()
    connection = office.running()[0]
    office.say(connection, stuck(*(row(seconds=float(n)) for n in range(100))))
    found = stuck_rows(office.brain.members)
    assert len(found) == ROWS_MAX
    assert found[0]["seconds"] == 99.0


def test_a_stuck_worker_that_still_speaks_is_not_lost():
    office = Office()
    connections = office.running()
    for _ in range(60):
        office.say(connections[0], stuck(row()))
        for connection in connections[1:]:
            office.say(connection, protocol.Marks({}))
        office.tick(1.0)
    assert office.brain.state == "running"
    assert office.brain.members[0].alive


def test_who_has_not_opened_is_named():
    office = Office()
    first, second, third = (office.join(slot) for slot in range(3))
    office.say(first, protocol.Deployed())
    assert waited_for(office.brain.members) == ""
    for _ in range(91):
        office.say(second, stuck(row()))
        office.tick(1.0)
    error = office.brain.error
    assert isinstance(error, StartError)
    assert "'slow', task 1, on worker 1 (host-1) for 8 s; worker 2 (host-2)" in error.message
    assert "worker 0" not in error.message
    assert "in lookup" in error.hint
    assert third


def test_a_successor_whose_open_does_not_come_back_is_given_up_and_named():
    office = Office()
    connections = office.running()
    office.leave(connections[0])
    again = office.join(0)
    for _ in range(200):
        if office.brain.error is None:
            office.say(again, stuck(row("opening", 0, 80.0)))
            for connection in connections[1:]:
                office.say(connection, protocol.Marks({}))
            office.tick(1.0)
    assert isinstance(office.brain.error, WorkerLostError)
    assert "Operator 'opening', task 0, had not come back for 80 s then." in office.brain.error.message


@pytest.mark.parametrize(("kind", "counts"), [("CloseError", True), ("OperatorError", False)])
def test_only_a_close_that_fails_counts_after_the_end(kind, counts):
    office = Office()
    connection = office.running()[0]
    office.brain.stop_now()
    office.say(connection, protocol.Failure(kind, "close() failed", ""))
    assert isinstance(office.brain.error, CloseError) == counts


def test_an_earlier_failure_is_not_replaced_by_that_of_a_close():
    office = Office()
    connection = office.running()[0]
    office.say(connection, protocol.Failure("ValueError", "first", ""))
    office.say(connection, protocol.Failure("CloseError", "second", ""))
    assert type(office.brain.error) is QueryError


def test_a_drain_that_does_not_end_names_who_holds_it_up():
    office = Office()
    connections = office.running()
    office.brain.drain(office.now_ns)
    for _ in range(62):
        for connection in connections:
            office.say(connection, stuck(*([row()] if connection == connections[1] else [])))
        office.tick(1.0)
    assert isinstance(office.brain.error, DrainTimeoutError)
    assert "Not come back: slow[1] on worker 1 for 8 s." in office.brain.error.message
