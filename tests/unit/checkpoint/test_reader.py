from __future__ import annotations

import sys
import types
from collections import Counter

import pytest
from tests.unit.checkpoint.made import WORDS, counted, replace_object

from tailrace.checkpoint.errors import CheckpointCorruptError, CheckpointVersionError
from tailrace.checkpoint.reader import CheckpointReader, OperatorState
from tailrace.checkpoint.stores import open_store
from tailrace.state.snapshot import KeyedPart, OperatorSnapshot
from tailrace.transport import codec


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("checkpoint")
    counted(path)
    return path


@pytest.fixture
def reader(written):
    return CheckpointReader(open_store(written))


def test_the_newest_entry_comes_first_and_is_whole(reader):
    entries = reader.entries()
    assert [entry.number for entry in entries] == sorted((entry.number for entry in entries), reverse=True)
    assert len(entries) > 1
    assert not any(entry.faults for entry in entries)
    assert entries[0].manifest.drained
    assert reader.faults(entries[0].manifest) == []


def test_states_are_put_together_from_all_parts(reader):
    newest = reader.entries()[0].manifest
    counts = list(reader.states(newest, "counts"))
    assert dict(pair for state in counts for pair in state.items()) == Counter(WORDS)
    assert sorted(state.task for state in counts) == [0, 1]
    lengths = dict(pair for state in reader.states(newest, "lengths") for pair in state.items())
    assert {key: Counter(held["words"]) for key, held in lengths.items()} == {
        size: Counter(word for word in WORDS if len(word) == size) for size in (2, 3)
    }


def test_one_task_is_read_by_itself(reader):
    newest = reader.entries()[0].manifest
    alone = [dict(state.items()) for task in (0, 1) for state in reader.states(newest, "counts", task)]
    assert alone == [dict(state.items()) for state in reader.states(newest, "counts")]


def test_an_earlier_epoch_has_fewer(reader):
    counts = [
        sum(value for state in reader.states(entry.manifest, "counts") for _, value in state.items())
        for entry in reader.entries()
    ]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == len(WORDS) > counts[-1]


def test_a_delta_deletes_and_a_base_replaces():
    def part(values=None, encoded=None, deleted=None, since=0):
        return OperatorSnapshot(
            [
                KeyedPart(
                    codec.dumps(values or {}),
                    codec.dumps({key: codec.dumps(value) for key, value in (encoded or {}).items()}),
                    codec.dumps(deleted or []),
                    None,
                    since,
                )
            ]
        )

    state = OperatorState("counts", 0)
    state.add(part({"a": 1, "b": 2}, {"c": [3]}, since=None))
    state.add(part({"c": 4}, {"a": [5]}, ["b"], since=1))
    assert dict(state.items()) == {"a": [5], "c": 4}
    state.add(part({"d": 6}, since=None))
    assert dict(state.items()) == {"d": 6}


@pytest.mark.parametrize("harm", ["flipped", "missing", "newer"])
def test_what_is_broken_is_named_and_the_rest_is_there(tmp_path, harm):
    counted(tmp_path)
    store = open_store(tmp_path)
    reader = CheckpointReader(store)
    newest, before = (entry.manifest for entry in reader.entries()[:2])
    name = max(newest.objects - before.objects)
    replace_object(store, name, harm)
    kind = CheckpointVersionError if harm == "newer" else CheckpointCorruptError
    (fault,) = reader.faults(newest)
    assert isinstance(fault, kind)
    assert name in fault.message
    assert reader.faults(before) == []
    assert [bool(entry.faults) for entry in reader.entries()[:2]] == [harm == "missing", False]
    with pytest.raises(kind, match=name):
        list(reader.states(newest))
    assert list(reader.states(before))


def test_objects_of_classes_that_are_not_here_are_shown(monkeypatch):
    module = types.ModuleType("gone_for_good")
    exec("class Pair:\n    def __init__(self, a, b):\n        self.a, self.b = a, b", module.__dict__)
    monkeypatch.setitem(sys.modules, "gone_for_good", module)
    data = [codec.dumps({module.Pair(1, key): key}) for key in ("x", "x", "y")]
    monkeypatch.undo()
    (one,), (same,), (other,) = (codec.loads_here(each) for each in data)
    assert repr(one) == "<gone_for_good.Pair {'a': 1, 'b': 'x'}>"
    assert one == same != other
    assert {one: 1}[same] == 1
