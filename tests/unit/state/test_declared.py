"""Declared states against a model: values, lists and maps with times to live, on both backends, over cuts and moves."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import pickle
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.state.rig import disk, group_of

import tailrace as tr
from tailrace.clock import FakeClock
from tailrace.durations import DurationError
from tailrace.state.backend import Delta, ValueCodec
from tailrace.state.declared import TAKEN
from tailrace.state.errors import StateDeclarationError, StateTypeError, StateUseError
from tailrace.state.memory import MemoryBackend
from tailrace.state.named import NOTHING, NamedStates, check_declarations, user_key

CODEC = ValueCodec(pickle.dumps, pickle.loads)
MS = 1_000_000
KEYS = st.sampled_from(["a", ("b", 1), 3, None])
FIELDS = st.sampled_from(["x", "y", "z", "w", ("t", 1), None])
VALUES = st.one_of(st.integers(), st.none(), st.text(max_size=2), st.lists(st.integers(), max_size=2), st.booleans())


class Mine(tr.States):
    one = tr.ValueState()
    brief = tr.ValueState(int, ttl=0.010)
    many = tr.ListState(ttl="10 ms")
    log = tr.ListState(list[int])
    by = tr.MapState(ttl="10 ms")
    plain = tr.MapState(str, int)


def on_memory():
    return MemoryBackend(CODEC, lambda key: group_of(user_key(key)))


def on_disk():
    return disk(cache_keys=3)


class Rig:
    """An object's states on a backend, as a step has them."""

    def __init__(self, make=on_memory, states=Mine):
        self.make, self.clock, self.backend, self.user = make, FakeClock(), make(), states()
        self.named = NamedStates(self.user, "op", CODEC, self.clock.wall_ms)
        self.turn()

    def turn(self):
        self.named.begin(self.backend)

    def at(self, key):
        self.named.key = key
        return self.user

    def move(self):
        """To another task, as a snapshot carries it."""
        held, self.backend = dict(self.backend.items()), self.make()
        self.backend.apply(pickle.loads(pickle.dumps(Delta(held, {}, []))))
        self.turn()


class Kinds(RuleBasedStateMachine):
    make = staticmethod(on_memory)

    @initialize()
    def begin(self):
        self.rig = Rig(self.make)
        self.rig.backend.track(0)
        #: Per key and state: value and expiry; lists of those; dicts of those.
        self.model: dict[Any, Any] = {}
        self.copy = {}
        self.epoch = 0

    def teardown(self):
        self.rig.backend.close()

    def over(self):
        return self.rig.clock.now_ns() + 10 * MS

    def now(self):
        return self.rig.clock.now_ns()

    @rule(key=KEYS, value=VALUES, number=st.integers())
    def update(self, key, value, number):
        self.rig.at(key).one.update(value)
        self.rig.at(key).brief.update(number)
        self.model[key, "one"] = copy.deepcopy(value)
        self.model[key, "brief"] = (number, self.over())

    @rule(key=KEYS, values=st.lists(VALUES, max_size=3))
    def append(self, key, values):
        mine = self.rig.at(key)
        mine.many.extend(values)
        for number, _ in enumerate(values):
            mine.log.append([number])
        self.model.setdefault((key, "many"), []).extend((copy.deepcopy(value), self.over()) for value in values)
        self.model.setdefault((key, "log"), []).extend([number] for number, _ in enumerate(values))

    @rule(key=KEYS, values=st.lists(VALUES, max_size=2))
    def replace_list(self, key, values):
        self.rig.at(key).many.put(values)
        self.model[key, "many"] = [(copy.deepcopy(value), self.over()) for value in values]

    @rule(key=KEYS, field=FIELDS, value=VALUES, number=st.integers())
    def enter(self, key, field, value, number):
        self.rig.at(key).by.update(field, value)
        self.model.setdefault((key, "by"), {})[field] = (copy.deepcopy(value), self.over())
        if isinstance(field, str):
            self.rig.at(key).plain.update(field, number)
            self.model.setdefault((key, "plain"), {})[field] = number

    @rule(key=KEYS, field=FIELDS)
    def remove(self, key, field):
        for name in ("by", "plain"):
            getattr(self.rig.at(key), name).remove(field)
            self.model.get((key, name), {}).pop(field, None)

    @rule(key=KEYS, name=st.sampled_from(["one", "brief", "many", "log", "by", "plain"]))
    def clear(self, key, name):
        getattr(self.rig.at(key), name).clear()
        self.model.pop((key, name), None)

    @rule(ms=st.integers(1, 12))
    def pass_time(self, ms):
        self.rig.clock.advance(ms * MS)

    @rule()
    def turn(self):
        self.rig.turn()

    @rule()
    def cut(self):
        self.epoch += 1
        self.rig.backend.cut(self.epoch)
        self.copy = copy.deepcopy(self.model)
        self.rig.backend.release(self.epoch)
        self.rig.turn()

    @rule()
    def roll_back(self):
        self.rig.backend.rollback(self.epoch)
        self.model = copy.deepcopy(self.copy)
        self.rig.turn()

    @rule()
    def move(self):
        before = self.rig.backend
        self.rig.move()
        before.close()
        self.rig.backend.track(self.epoch)
        self.copy = copy.deepcopy(self.model)

    @invariant()
    def it_is_what_the_model_is(self):
        for key in ("a", ("b", 1), 3, None):
            mine, now = self.rig.at(key), self.now()
            one = self.model.get((key, "one"), NOTHING)
            assert mine.one.exists() == (one is not NOTHING)
            assert mine.one.get() == (None if one is NOTHING else one)
            brief, until = self.model.get((key, "brief"), (None, 0))
            assert mine.brief.get() == (brief if until > now else None)
            assert mine.brief.exists() == (until > now)
            many = [value for value, until in self.model.get((key, "many"), []) if until > now]
            assert mine.many.get() == many
            assert mine.many.exists() == bool(many)
            assert mine.log.get() == self.model.get((key, "log"), [])
            by = {field: value for field, (value, until) in self.model.get((key, "by"), {}).items() if until > now}
            assert sorted(mine.by.items(), key=repr) == sorted(by.items(), key=repr)
            assert sorted(mine.by.keys(), key=repr) == sorted(by, key=repr)
            assert len(mine.by.values()) == len(by)
            assert mine.by.exists() == bool(by)
            for field in ("x", ("t", 1), None):
                assert mine.by.get(field, "none") == by.get(field, "none")
                assert mine.by.contains(field) == (field in by)
            assert dict(mine.plain.items()) == self.model.get((key, "plain"), {})


class KindsOnDisk(Kinds):
    make = staticmethod(on_disk)


TestKinds = Kinds.TestCase
TestKindsOnDisk = KindsOnDisk.TestCase


def on_disk_by_itself():
    """As in a worker: each key in a place of its own."""
    return disk(cache_keys=50, place=lambda key: hashlib.blake2b(repr(key).encode(), digest_size=12).digest())


@pytest.mark.parametrize("make", [on_memory, on_disk_by_itself])
def test_what_has_expired_goes_without_being_read(make):
    rig = Rig(make)
    for key in range(300):
        mine = rig.at(key)
        mine.brief.update(key)
        mine.many.extend([1, 2])
        mine.by.update("x", [key])
        mine.plain.update("kept", key)
    rig.clock.advance(5 * MS)
    rig.at(7).many.append(3)
    rig.clock.advance(1000 * MS)  # the round over nothing was a second ago
    left = len(rig.backend)
    assert left == 300 * (1 + 3 + 3 + 3) + 1
    for _ in range(200):
        rig.turn()
        assert left - len(rig.backend) <= 64 * 5, "so much per turn"
        left = len(rig.backend)
    assert left == 300 * 3, "of each key the map that lives: head, entry and number"
    assert rig.at(8).plain.items() == [("kept", 8)]
    rig.backend.close()


def test_a_value_that_is_written_again_lives_on():
    rig = Rig()
    for _ in range(10):
        rig.at("a").brief.update(1)
        rig.clock.advance(9 * MS)
        rig.turn()
    assert rig.at("a").brief.get() == 1
    rig.clock.advance(1 * MS)
    assert rig.at("a").brief.get() is None
    assert len(rig.backend) == 0


def test_one_entry_that_changes_is_one_entry_of_a_delta():
    rig = Rig()
    rig.backend.track(0)
    for number in range(100):
        rig.at("a").plain.update(str(number), number)
        rig.at("a").log.append([number])
    rig.backend.cut(1)
    rig.turn()
    rig.at("a").plain.update("7", 0)
    rig.at("a").plain.get("8")
    rig.at("a").log.get()
    rig.backend.cut(2)
    assert len(rig.backend.delta(1, 2).values) == 1
    rig.turn()
    rig.at("a").log.append([5])
    rig.backend.cut(3)
    assert len(rig.backend.delta(2, 3).values) == 2


class Point(msgspec.Struct):
    x: int


class Far(Point):
    y: int


@dataclasses.dataclass
class Pair:
    a: int
    points: list[Point]


class Other:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return self.x == other.x

    __hash__ = None


class Typed(tr.States):
    number = tr.ValueState(int)
    real = tr.ValueState(float)
    numbers = tr.ListState(list[int])
    point = tr.ValueState(Point)
    pair = tr.ValueState(Pair)
    other = tr.ValueState(Other)
    maybe: tr.ValueState[Any] = tr.ValueState(int | None)
    map = tr.MapState(str, Point)


@pytest.mark.parametrize(
    ("name", "value"),
    [("number", 1 << 80), ("real", 1.5), ("real", float("inf")), ("point", Point(1)), ("pair", Pair(1, [Far(1, 2)])),
     ("other", Other([1])), ("maybe", None), ("maybe", 5)],
)  # fmt: skip
def test_typed_values_come_back_as_they_were(name, value):
    state = getattr(Rig(states=Typed).at("k"), name)
    state.update(value)
    assert state.get() == value
    assert type(state.get()) is type(value)
    assert state.exists()


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [("number", "1", "'1' of type str"), ("number", True, "of type bool"), ("number", None, "of type NoneType"),
     ("number", 1.0, "of type float"), ("real", "x", "of type str"), ("point", {"x": 1}, "of type dict"),
     ("point", Far(1, 2), "of type Far"), ("point", Point("no"), "Expected `int`, got `str`"), ("pair", 5, "type int"),
     ("other", Point(1), "of type Point"), ("maybe", "x", "Expected `int | null`, got `str`")],
)  # fmt: skip
def test_another_type_than_declared_is_refused_by_name(name, value, found):
    rig = Rig(states=Typed)
    with pytest.raises(StateTypeError) as raised:
        getattr(rig.at("k"), name).update(value)
    assert f"State {name!r} of operator 'op' holds values of type" in str(raised.value)
    assert found in str(raised.value)
    assert len(rig.backend) == 0


def test_a_list_takes_all_values_or_none_and_a_map_wants_its_keys():
    rig = Rig(states=Typed)
    with pytest.raises(StateTypeError, match="got `str`"):
        rig.at("k").numbers.extend([[1], ["x"]])
    with pytest.raises(StateTypeError, match="in its keys"):
        rig.at("k").map.update(5, Point(1))
    assert len(rig.backend) == 0


def test_what_is_read_is_a_copy():
    rig = Rig()
    rig.at("a").one.update([1])
    rig.at("a").one.get().append(2)
    assert rig.at("a").one.get() == [1]


def test_a_state_is_used_where_a_key_is_at_hand_only():
    rig = Rig()
    with pytest.raises(StateUseError, match="'one' was used where no key is at hand"):
        rig.user.one.get()
    with pytest.raises(StateUseError):
        Mine().one.update(1)


def test_declarations_that_cannot_be_kept_are_refused():
    class Twice(tr.States):
        one = tr.ValueState(name="same")
        two = tr.ListState(name="same")

    class Taken(tr.States):
        clear = tr.ValueState()  # type: ignore[assignment]

    with pytest.raises(StateDeclarationError, match="two states that are kept under 'same': one and two"):
        check_declarations(Twice)
    with pytest.raises(StateDeclarationError, match="'clear' has another meaning"):
        check_declarations(Taken, TAKEN)
    with pytest.raises(DurationError, match="ttl of a state must be a length of time"):
        tr.ValueState(ttl="soon")
