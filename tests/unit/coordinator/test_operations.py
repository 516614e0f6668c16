"""The operation machine by itself: queue, epochs, deadlines, losses and the way back, with kinds made for the tests."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import tailrace as tr
from tailrace import protocol
from tailrace.config import Policy, Settings
from tailrace.coordinator.deployment import program_of
from tailrace.coordinator.operations.events import Asked, Heard, Lost, Opened, Passed, Stopping
from tailrace.coordinator.operations.instructions import (
    Admit,
    Dismiss,
    GiveUp,
    Place,
    SetTable,
    Tell,
    TellPolicies,
    TellWeights,
)  # fmt: skip
from tailrace.coordinator.operations.key_move import KeyMove
from tailrace.coordinator.operations.machine import TOLD_MAX, WAITING_MAX, OperationMachine
from tailrace.coordinator.operations.operation import DONE, UNDONE, Awaited, Operation, OperationState
from tailrace.coordinator.operations.policy_switch import PolicySwitch
from tailrace.coordinator.operations.scaling import WorkersJoin, WorkersLeave
from tailrace.coordinator.operations.task_move import TaskMove
from tailrace.program.errors import MoveError
from tailrace.testing import TestSource

S = 1_000_000_000
SETTINGS = Settings(move_timeout_s=5.0, key_move_wait_s=30.0, register_timeout_s=90.0, key_groups=8)


class Known:
    """What operations may know, written by hand."""

    def __init__(self, workers=3, replay="fixed:30s"):
        flow = tr.Topology("machine")
        keyed = flow.source(TestSource([]), tasks=1, name="source").key_by(str)
        keyed.count(tasks=2, name="count").sink(tr.sinks.collect(), tasks=1, name="kept")
        self.program = program_of(flow, Policy(chaining="off", replay=replay), SETTINGS)
        self.placement = [[0], [0, 1], [2]]
        self.tables = {}
        self.marks = {1: 100}
        self.restarts = 0
        self.open_slots = frozenset(range(workers))
        self.waiting_slots = frozenset()
        self.everyone_open = True


class Rig:
    """A machine, and its instructions carried out on what is known."""

    def __init__(self, known=None, starters=()):
        self.known = known or Known()
        self.machine = OperationMachine(starters)
        self.now_ns = S
        self.given = []

    def take(self, event, after_s=0.0):
        self.now_ns += int(after_s * S)
        for each in self.machine.handle(event, self.now_ns):
            self.given.append(each)
            match each:
                case Place(stage=stage, task=task, slot=slot):
                    self.known.placement[stage][task] = slot
                case SetTable(stage=stage, table=table):
                    self.known.tables[stage] = table
                case Admit():
                    self.known.waiting_slots = frozenset()
                case _:
                    pass

    def ask(self, operation):
        self.take(Asked(operation))
        self.take(Passed())
        return operation

    def answer(self, slot, message):
        self.take(Heard(slot, message))

    def said(self, kind):
        return [each.message for each in self.given if isinstance(each, Tell) and isinstance(each.message, kind)]

    def answer_all(self):
        """Say all that is awaited, whatever it is."""
        operation = self.machine.active
        for awaited in sorted(operation.awaited):
            kinds = {"cleared": protocol.Cleared, "installed": protocol.Installed}
            if awaited.what in kinds:
                self.answer(awaited.slot, kinds[awaited.what](operation.epoch, awaited.row))
            elif awaited.what == "held":
                self.answer(awaited.slot, protocol.Held(operation.epoch, {1: 100}))
            elif awaited.what == "opened":
                self.take(Opened(awaited.slot))
            else:
                self.answer(awaited.slot, protocol.Switched(operation.epoch))

    def until(self, operation, state):
        for _ in range(20):
            if operation.state == state:
                return
            self.answer_all()
            self.take(Passed())
        raise AssertionError(operation.state)


def task_move(known):
    return TaskMove(known, [(1, 0, 1), (1, 1, 2)], "a test asks")


def key_move(known):
    return KeyMove(known, 1, {0: 1, 1: 1}, "a test asks")


def join(known):
    known.waiting_slots = frozenset({3})
    return WorkersJoin(known, "a test asks")


KINDS = {"task": task_move, "key": key_move, "join": join, "switch": PolicySwitch}


def make(kind, known):
    return PolicySwitch(known, "a test asks") if kind == "switch" else KINDS[kind](known)


STATES = [
    ("task", "transfer", 5), ("task", "relocate", 90), ("key", "hold", 5), ("key", "cut", 90), ("key", "transfer", 5),
    ("key", "switch", 90), ("switch", "switch", 90), ("join", "join", 90), ("key", "drain_before", 30),
    ("key", "drain", 30),
]  # fmt: skip


def brought_to(kind, state):
    """A machine whose operation is in a state and waits there."""
    rig = Rig()
    operation = make(kind, rig.known)
    if state == "drain_before":  # roots of an earlier cut are open
        rig.known.tables[1] = protocol.KeyTable([0] * 4 + [1] * 4, [], [0] * 4 + [1] * 4, [], {1: 1000})
    rig.ask(operation)
    if state == "drain":
        rig.until(operation, "cut")
        rig.known.marks = {1: 0}  # nothing below the offsets of the cut is complete
    rig.until(operation, state)
    assert operation is rig.machine.active
    return rig, operation


@pytest.mark.parametrize(("kind", "state", "limit_s"), STATES)
def test_every_state_has_a_deadline_and_a_way_back_or_forward(kind, state, limit_s):
    rig, operation = brought_to(kind, state)
    rig.take(Passed(), limit_s - 0.5)
    assert operation.state == state
    missing = operation.missing()
    assert missing, "it says what it waits for"
    decided, awaited = operation.decided, {each.slot for each in operation.awaited}
    rig.given.clear()
    rig.take(Passed(), 1.0)
    if not decided:
        assert operation.state == UNDONE
        assert operation.reason == f"it took longer than {limit_s} s: {'; '.join(missing)}"
        assert rig.said(protocol.Undo) == [protocol.Undo(operation.epoch)] or Dismiss((3,)) in rig.given
        assert rig.machine.idle
    else:
        assert rig.given == [GiveUp(tuple(sorted(awaited)))]
        for slot in sorted(awaited):
            rig.take(Lost(slot))
        assert operation.state in {DONE, "drain", "transfer"}


@pytest.mark.parametrize(("kind", "state", "limit_s"), STATES)
def test_a_lost_worker_undoes_what_is_not_decided_and_is_not_waited_for_elsewhere(kind, state, limit_s):
    rig, operation = brought_to(kind, state)
    decided = operation.decided
    rig.known.open_slots -= {0}
    rig.known.everyone_open = False
    rig.take(Lost(0))
    assert all(each.slot != 0 for each in operation.awaited)
    if kind == "join":
        assert operation.state == state
    elif not decided:
        assert (operation.state, operation.reason) == (UNDONE, "worker 0 was lost")
    else:
        assert operation.state == state
        while operation is rig.machine.active:
            rig.answer_all()
        if state == "cut":  # what follows could be undone, and is
            assert (operation.state, operation.reason) == (UNDONE, "a worker was lost")
            assert rig.said(protocol.GoOn)
        else:
            assert operation.state == DONE
    assert limit_s


@pytest.mark.parametrize(("kind", "state", "limit_s"), STATES)
def test_stopping_undoes_what_is_not_decided_and_lets_the_rest_come_to_its_end(kind, state, limit_s):
    rig, operation = brought_to(kind, state)
    decided = operation.decided
    behind = task_move(rig.known)
    rig.take(Asked(behind))
    rig.take(Stopping("the query is being stopped"))
    assert (behind.state, behind.reason) == (UNDONE, "the query is being stopped")
    while operation is rig.machine.active:
        rig.answer_all()
    assert operation.state == (DONE if decided and state != "cut" else UNDONE)
    assert limit_s
    late = rig.ask(task_move(rig.known))
    assert (late.state, rig.machine.idle) == (UNDONE, True)


@pytest.mark.parametrize(("kind", "state", "limit_s"), STATES)
def test_a_worker_that_cannot_undoes_what_is_not_decided(kind, state, limit_s):
    rig, operation = brought_to(kind, state)
    decided = operation.decided
    rig.answer(1, protocol.OperationFailed(operation.epoch - 1, "of another one", ""))
    assert operation.state == state
    rig.answer(1, protocol.OperationFailed(operation.epoch, "it holds a lock", "Let go of it."))
    assert operation.state == (state if decided else UNDONE)
    assert decided or (operation.reason, operation.hint) == ("it holds a lock", "Let go of it.")
    assert limit_s


def test_a_move_of_tasks_from_beginning_to_end():
    rig = Rig()
    operation = rig.ask(task_move(rig.known))
    assert rig.said(protocol.Pause) == [protocol.Pause(1, [[1, 0, 0, 1], [1, 1, 1, 2]])]
    assert operation.awaited == {
        Awaited("cleared", 0, 0), Awaited("installed", 1, 0), Awaited("cleared", 1, 1), Awaited("installed", 2, 1),
    }  # fmt: skip
    assert operation.missing()[0] == "task 0 of 'count' was not let go"
    rig.answer_all()
    assert rig.known.placement[1] == [1, 2]
    assert operation.phase == "switching"
    rig.now_ns += S // 100
    rig.answer_all()
    assert (operation.state, rig.machine.idle) == (DONE, True)
    assert rig.given[-2:] == [Tell(protocol.GoOn(1)), TellWeights()]
    assert operation.pause_ms == 10.0


def test_keys_of_untracked_streams_begin_with_the_transfer():
    rig = Rig(Known(replay="off"))
    operation = rig.ask(key_move(rig.known))
    assert operation.state == "transfer"
    assert not rig.said(protocol.HoldSources)


def test_one_operation_at_a_time_each_with_an_epoch_and_none_without_everyone():
    rig = Rig()
    rig.known.everyone_open = False
    first, second = rig.ask(task_move(rig.known)), rig.ask(key_move(rig.known))
    assert (first.state, second.state) == ("waiting", "waiting")
    rig.known.everyone_open = True
    rig.take(Passed())
    assert (first.state, second.state) == ("transfer", "waiting")
    rig.until(first, DONE)
    rig.take(Passed())
    assert (first.epoch, second.epoch) == (1, 2)
    assert rig.machine.active is second


def test_what_an_operation_of_before_still_hears_has_no_effect():
    rig = Rig()
    first = rig.ask(task_move(rig.known))
    rig.take(Lost(2))
    second = rig.ask(task_move(rig.known))
    rig.answer(0, protocol.Cleared(first.epoch, 0))
    assert len(second.awaited) == 4


def test_the_queue_is_bounded_and_those_of_which_one_does_for_all_take_no_room():
    rig = Rig()
    rig.known.everyone_open = False
    for _ in range(WAITING_MAX):
        rig.ask(task_move(rig.known))
    with pytest.raises(MoveError, match="16 operations wait already"):
        rig.ask(task_move(rig.known))
    for _ in range(3):
        rig.ask(PolicySwitch(rig.known, "a test asks"))
    assert len(rig.machine.waiting) == WAITING_MAX + 1
    rig.ask(join(rig.known))
    assert isinstance(rig.machine.waiting[0], WorkersJoin), "workers that wait go first"
    rig.known.everyone_open = True
    for _ in range(100):
        rig.take(Passed())
        if rig.machine.active is not None:
            rig.answer_all()
    assert rig.machine.idle
    assert len(rig.machine.told) == TOLD_MAX
    assert rig.given.count(TellPolicies(2 + WAITING_MAX)) == 1


def test_what_has_arrived_by_itself_is_left_out_and_what_has_no_place_is_undone():
    rig = Rig()
    assert rig.ask(TaskMove(rig.known, [(1, 0, 0)], "it is there")).state == DONE
    assert rig.ask(KeyMove(rig.known, 1, {0: 0}, "they are there")).state == DONE
    gone = rig.ask(TaskMove(rig.known, [(1, 0, 7)], "to nobody"))
    assert (gone.state, gone.reason) == (UNDONE, "a worker has left")
    assert rig.given == []


def test_a_task_does_not_give_and_take_keys_at_once_because_of_a_move_in_front():
    rig = Rig()
    first = rig.ask(KeyMove(rig.known, 1, {0: 1}, "it comes first"))
    second = KeyMove(rig.known, 1, {0: 0, 1: 1}, "by then task 0 would give one and get the other")
    rig.take(Asked(second))
    rig.until(first, DONE)
    rig.take(Passed())
    assert second.state == UNDONE
    assert "both give key groups away and get some" in second.reason


def test_workers_leave_only_without_tasks():
    rig = Rig()
    stays = rig.ask(WorkersLeave(rig.known, [2], "a test asks"))
    assert str(stays.failure()).startswith("The workers stay: worker 2 has tasks.")
    rig.known.placement[2][0] = 0
    assert rig.ask(WorkersLeave(rig.known, [2], "a test asks")).state == DONE
    assert rig.given == [Dismiss((2,))]


class Writing(Operation):
    """Like a checkpoint: begun by the clock, everyone writes, and a failure fails it alone."""

    def __init__(self, known):
        super().__init__(known, "it is time")
        self.states_ = {
            "write": OperationState(self._ask, "publish", 10.0),
            "publish": OperationState(self._publish, DONE, 10.0, decided=True),
        }
        self.published = False

    @property
    def states(self):
        return self.states_

    def begin(self):
        return "write"

    def _ask(self):
        self.awaited = self.everyone("switched")
        return ()

    def _publish(self):
        self.published = True
        return ()


class Every:
    """Begins one every so many seconds."""

    def __init__(self, known, seconds):
        self.known = known
        self.seconds = seconds
        self.next_ns = 0
        self.begun = []

    def on_event(self, event, now_ns):
        if not isinstance(event, Passed) or now_ns < self.next_ns:
            return None
        self.next_ns = now_ns + int(self.seconds * S)
        self.begun.append(Writing(self.known))
        return self.begun[-1]


class Back(Operation):
    """Like a recovery: begun by a loss, before all others, with whoever lives."""

    priority = 9
    preempts = True
    single = True

    def __init__(self, known):
        super().__init__(known, "a worker was lost")
        self.states_ = {"back": OperationState(self._ask, DONE, 10.0, decided=True)}

    @property
    def states(self):
        return self.states_

    def begin(self):
        return "back"

    def may_begin(self):
        return True

    def _ask(self):
        self.awaited = self.everyone("switched")
        return ()


def test_an_operation_may_be_begun_by_the_clock_and_fails_alone():
    known = Known()
    every = Every(known, 60)
    rig = Rig(known, [every])
    rig.take(Passed())
    (first,) = every.begun
    assert first is rig.machine.active
    rig.answer(1, protocol.OperationFailed(first.epoch, "the disk is full", ""))
    assert (first.state, first.reason, first.published) == (UNDONE, "the disk is full", False)
    rig.take(Passed(), 61)
    rig.answer_all()
    assert (every.begun[1].state, every.begun[1].published) == (DONE, True)


@pytest.mark.parametrize(("kind", "state", "limit_s"), STATES)
def test_an_operation_that_a_loss_begins_goes_before_all_others(kind, state, limit_s):
    known = Known()
    made = []

    def on_event(event, now_ns):
        if isinstance(event, Lost):
            made.append(Back(known))
            return made[-1]
        return None

    rig, operation = brought_to(kind, state)
    rig.machine._starters = (SimpleNamespace(on_event=on_event),)
    made_known, rig.known.everyone_open = rig.known, False
    rig.known.open_slots -= {0}
    queued = task_move(made_known)
    rig.take(Asked(queued))
    decided = operation.decided
    rig.take(Lost(0))
    if decided:
        assert operation is rig.machine.active
        while operation is rig.machine.active:
            rig.answer_all()
    else:
        assert operation.state == UNDONE
    rig.take(Passed())
    assert rig.machine.active is made[0]
    rig.answer_all()
    for slot in sorted({each.slot for each in made[0].awaited}):
        rig.take(Lost(slot))
    assert made[0].state == DONE
    assert queued.state == "waiting"
    assert limit_s
