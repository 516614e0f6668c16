"""Both backends against a model that copies the whole state at each cut; then what is said of the one in memory."""

from __future__ import annotations

import copy
import pickle

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.unit.state.rig import disk

from tailrace.hot import count_keys
from tailrace.state.backend import Delta, ValueCodec
from tailrace.state.errors import CutError
from tailrace.state.memory import MemoryBackend, is_atom

KEYS = st.one_of(st.integers(0, 5), st.sampled_from(["a", "b", ("a", 1), None]))
ATOMS = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3), st.binary(max_size=3), st.floats())
MUTABLE = st.one_of(
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    st.tuples(st.integers(), st.lists(st.integers(), max_size=2)),
)
VALUES = st.one_of(ATOMS, st.tuples(ATOMS, ATOMS), MUTABLE)


class Encodes:
    """A codec that counts how often it encodes."""

    def __init__(self):
        self.encoded = 0

    def codec(self):
        return ValueCodec(self._encode, pickle.loads)

    def _encode(self, value):
        self.encoded += 1
        return pickle.dumps(value)


def memory(*, tracked=True, codec=None):
    backend = MemoryBackend(codec or ValueCodec(pickle.dumps, pickle.loads), lambda key: hash(key) % 4)
    if tracked:
        backend.track(0)
    return backend


def on_disk(*, tracked=True, **how):
    backend = disk(**how)
    if tracked:
        backend.track(0)
    return backend


def states(backend):
    return dict(backend.items())


def same(one, other):
    """Equal with every type, and with NaN equal to itself."""
    return {key: pickle.dumps(copy.deepcopy(value)) for key, value in one.items()} == {
        key: pickle.dumps(copy.deepcopy(value)) for key, value in other.items()
    }


def mutate(value, number):
    """Change a value in place, if it can be."""
    if isinstance(value, list):
        value.append(number)
    elif isinstance(value, dict):
        value["new"] = number
    elif isinstance(value, tuple):
        for part in value:
            mutate(part, number)


class Cuts(RuleBasedStateMachine):
    """Random work on a backend and on a dict; whole copies of the dict stand for cuts."""

    make = staticmethod(memory)

    def __init__(self):
        super().__init__()
        self.backend = self.make()
        self.model = {}
        self.copies = {0: {}}
        #: What a second state is that has taken in the deltas of cuts in order, and up to which.
        self.follower = self.make(tracked=False)
        self.followed = 0
        self.epoch = 0

    def teardown(self):
        self.backend.close()
        self.follower.close()

    @rule()
    def begin_a_turn(self):
        """Between two pieces of work a backend may put keys elsewhere."""
        self.backend.cell()
        self.follower.cell()

    @rule(groups=st.sets(st.integers(0, 3)))
    def hand_groups_over(self, groups):
        """What a move of key groups takes along, and lets go of."""
        found = dict(self.backend.items(groups))
        assert same(found, {key: value for key, value in self.model.items() if hash(key) % 4 in groups})
        for key in found:
            self.backend.delete(key)
            del self.model[key]

    @rule(key=KEYS, value=VALUES)
    def put(self, key, value):
        self.backend.put(key, value)
        self.model[key] = copy.deepcopy(value)

    @rule(key=KEYS)
    def delete(self, key):
        self.backend.delete(key)
        self.model.pop(key, None)

    @rule(key=KEYS)
    def read(self, key):
        assert pickle.dumps(copy.deepcopy(self.backend.get(key))) == pickle.dumps(copy.deepcopy(self.model.get(key)))

    @rule(key=KEYS, number=st.integers())
    def change_in_place(self, key, number):
        mutate(self.backend.get(key), number)
        mutate(self.model.get(key), number)

    @rule(keys=st.lists(KEYS, max_size=4), number=st.integers())
    def update_in_place(self, keys, number):
        """As the built-in operators do: touched ahead, then through the table."""
        self.backend.touch(keys)
        for key in keys:
            for table in (self.backend.table, self.model):
                if is_atom(table.get(key)):
                    table[key] = number
                else:
                    mutate(table[key], number)

    @rule(values=st.lists(st.tuples(KEYS, st.integers()), max_size=4))
    def combine_in_place(self, values):
        key_of = self.backend.touching(lambda value: value[0])
        for value in values:
            key = key_of(value)
            for table in (self.backend.table, self.model):
                if isinstance(table.get(key), list):
                    table[key].append(value[1])
                else:
                    table[key] = [value[1]]

    @rule(values=st.dictionaries(KEYS, ATOMS, max_size=2), lists=st.dictionaries(KEYS, MUTABLE, max_size=2), gone=KEYS)
    def take_in(self, values, lists, gone):
        """What comes with key groups of another task is a change as any other."""
        self.backend.apply(Delta(values, {key: pickle.dumps(value) for key, value in lists.items()}, [gone]))
        self.model.update(values)
        self.model.update(copy.deepcopy(lists))
        self.model.pop(gone, None)

    @rule(by=st.integers(1, 3))
    def cut(self, by):
        before = self.copies[self.epoch]
        changed = {key for key in {*before, *self.model} if not same(picked(before, key), picked(self.model, key))}
        listed = set(self.backend.changed_since(self.epoch))
        self.epoch += by
        assert changed <= set(self.backend.cut(self.epoch)) == listed
        self.copies[self.epoch] = copy.deepcopy(self.model)

    @precondition(lambda self: self.followed < self.epoch)
    @rule(data=st.data())
    def follow(self, data):
        """Draw a delta, late perhaps and bit by bit, over one cut or several."""
        until = data.draw(st.sampled_from([cut for cut in self.copies if cut > self.followed]))
        keys = self.backend.changed_since(self.followed, until)
        half = len(keys) // 2
        for part in (keys[:half], keys[half:]):
            delta = self.backend.delta(self.followed, until, part)
            assert not {*delta.values, *delta.encoded} & {*delta.deleted}
            assert all(map(is_atom, delta.values.values()))
            self.follower.apply(delta)
        self.followed = until
        assert same(states(self.follower), self.copies[until])

    @rule(data=st.data())
    def draw_whole(self, data):
        until = data.draw(st.sampled_from(sorted(self.copies)))
        whole = memory(tracked=False)
        assert len(keys := self.backend.keys_at(until)) == len(set(keys))
        whole.apply(self.backend.delta(None, until))
        assert same(whole.table, self.copies[until])

    @rule(data=st.data())
    def roll_back(self, data):
        to = data.draw(st.sampled_from([cut for cut in self.copies if cut >= self.followed]))
        self.backend.rollback(to)
        self.model = copy.deepcopy(self.copies[to])
        self.copies = {cut: states for cut, states in self.copies.items() if cut <= to}
        self.epoch = to
        assert self.backend.changed_since(to) == []

    @rule(data=st.data())
    def release(self, data):
        to = data.draw(st.sampled_from([cut for cut in self.copies if cut <= self.followed]))
        self.backend.release(to)
        for cut in [cut for cut in self.copies if cut < to]:
            del self.copies[cut]
            with pytest.raises(CutError, match="released"):
                self.backend.rollback(cut)

    @invariant()
    def it_is_what_the_model_is(self):
        assert same(states(self.backend), self.model)
        assert len(self.backend) == len(self.model)


def picked(states, key):
    return {key: states[key]} if key in states else {}


class CutsOnDisk(Cuts):
    """Two keys find room in memory, and few places hold all others."""

    make = staticmethod(on_disk)


TestCuts = Cuts.TestCase
TestCutsOnDisk = CutsOnDisk.TestCase


@hypothesis.given(st.dictionaries(KEYS, ATOMS), st.sets(st.integers(0, 3)))
def test_items_of_some_groups(given, groups):
    backend = memory(tracked=False)
    for key, value in given.items():
        backend.put(key, value)
    found = dict(backend.items(groups))
    assert same(found, {key: value for key, value in given.items() if hash(key) % 4 in groups})


@pytest.mark.parametrize(
    ("value", "atom"),
    [
        (1, True), (1.5, True), ("a", True), (b"a", True), (True, True), (None, True), ((1, "a", None), True),
        ([], False), ((1, []), False), ({}, False), (bytearray(), False), (type("Mine", (int,), {})(1), False),
    ],
)  # fmt: skip
def test_what_nobody_can_change_in_place(value, atom):
    assert is_atom(value) is atom


def test_a_value_is_encoded_once_per_cut_however_often_it_is_touched_and_atoms_never():
    encodes = Encodes()
    backend = memory(codec=encodes.codec())
    backend.put("list", [1])
    backend.put("count", 1)
    backend.cut(1)
    assert encodes.encoded == 0
    for _ in range(5):
        backend.get("list").append(2)
        backend.put("count", backend.get("count") + 1)
    assert encodes.encoded == 1
    backend.rollback(1)
    assert backend.table == {"list": [1], "count": 1}


def test_nothing_is_encoded_or_kept_while_nothing_is_tracked():
    encodes = Encodes()
    backend = memory(tracked=False, codec=encodes.codec())
    assert backend.touching(len) is len
    backend.put("a", [1])
    backend.get("a").append(2)
    backend.touch(["a", "b"])
    backend.delete("a")
    backend.apply(Delta({"b": [3]}, {}, []))
    assert encodes.encoded == 0
    assert backend.table == {"b": [3]}
    with pytest.raises(CutError, match="not tracked"):
        backend.cut(1)


def test_what_was_only_looked_at_is_in_no_delta():
    backend = memory()
    backend.put("seen", [1])
    backend.put("changed", [1])
    backend.cut(1)
    backend.get("seen")
    backend.get("changed").append(2)
    assert set(backend.cut(2)) == {"seen", "changed"}
    assert set(backend.delta(1, 2).encoded) == {"changed"}


def test_deletes_are_in_deltas_and_what_came_and_went_between_two_cuts_is_not():
    backend = memory()
    backend.put("gone", 1)
    backend.cut(1)
    backend.delete("gone")
    backend.put("brief", 1)
    backend.delete("brief")
    backend.cut(2)
    assert backend.delta(1, 2) == Delta({}, {}, ["gone"])


def test_a_failed_epoch_is_in_the_next_delta():
    backend = memory()
    for epoch in (1, 2, 3):
        backend.put(epoch, epoch)
        backend.cut(epoch)
    backend.release(1)
    assert backend.delta(1, 3).values == {2: 2, 3: 3}


def test_a_state_that_was_restored_goes_on_from_its_cut():
    backend = memory(tracked=False)
    backend.apply(Delta({"a": 1}, {"b": pickle.dumps([2])}, ["c"]))
    backend.track(7)
    backend.get("b").append(3)
    backend.cut(9)
    assert backend.delta(7, 9).values == {}
    backend.rollback(7)
    assert backend.table == {"a": 1, "b": [2]}


def test_cuts_are_numbered_upwards():
    backend = memory()
    backend.cut(5)
    for number in (5, 4):
        with pytest.raises(CutError, match="upwards"):
            backend.cut(number)


def test_a_key_that_cannot_be_looked_up_is_left_to_whoever_looks_it_up():
    backend = memory()
    backend.touch(["a", [], "b"])
    into = []
    with pytest.raises(TypeError):
        count_keys(backend.table, ["a", [], "b"], into)
    assert into == [("a", 1)]
    backend.rollback(0)
    assert backend.table == {}
