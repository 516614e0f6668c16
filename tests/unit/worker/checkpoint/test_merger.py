"""Merged parts do what they did one after the other; an object is read once, and one that fails is left."""

from __future__ import annotations

import random
import threading
from collections import deque

from tailrace.checkpoint.keyed import delta_of, keyed_part
from tailrace.checkpoint.log import epoch_of
from tailrace.checkpoint.part import TaskPart, WorkerPart, decode_part, encode_part
from tailrace.checkpoint.stores.memory import MemoryStore
from tailrace.protocol import MergeParts, PartsMerged
from tailrace.state.backend import Delta
from tailrace.state.snapshot import OperatorSnapshot, TaskSnapshot
from tailrace.transport import codec
from tailrace.worker.checkpoint.merger import PartMerger, answer_to, merge


def part(task, delta, since=1):
    snapshot = OperatorSnapshot([keyed_part(delta, since=since)], user=b"left out")
    return TaskPart(TaskSnapshot(1, task, {"counts": snapshot}), own_next=7)


def drawn(rng):
    """Some keys of a few: each has a value, one that was encoded by itself, or is gone."""
    delta = Delta({}, {}, [])
    for key in rng.sample(range(8), rng.randint(0, 5)):
        match rng.randrange(3):
            case 0:
                delta.values[key] = rng.random()
            case 1:
                delta.encoded[key] = codec.dumps(rng.random())
            case _:
                delta.deleted.append(key)
    return delta


def applied(state, delta):
    found = {**state, **delta.values, **{key: codec.loads(data) for key, data in delta.encoded.items()}}
    return {key: value for key, value in found.items() if key not in delta.deleted}


def test_merged_parts_do_what_they_did():
    rng = random.Random(1)
    for _ in range(200):
        deltas = [drawn(rng) for _ in range(rng.randint(2, 5))]
        before = dict.fromkeys(range(8), "before")
        wanted = before
        for delta in deltas:
            wanted = applied(wanted, delta)
        objects = {f"{at}": encode_part(WorkerPart(at, [part(0, delta)])) for at, delta in enumerate(deltas)}
        (whole,) = merge(MergeParts(1, 1, 9, [(1, 0, list(objects))]), objects.__getitem__).tasks
        (keyed,) = whole.snapshot.operators["counts"].keyed
        assert applied(before, delta_of(keyed)) == wanted
        assert keyed.since == 1
        assert whole.snapshot.operators["counts"].user is None
        assert whole.own_next == 0


def test_an_object_that_several_tasks_need_is_read_once():
    objects = {
        name: encode_part(WorkerPart(1, [part(task, Delta({name: 1}, {}, [])) for task in (0, 1)])) for name in "abc"
    }
    read = []
    order = MergeParts(1, 1, 9, [(1, 0, ["a", "b", "c"]), (1, 1, ["b", "c"])])
    merged = merge(order, lambda name: (read.append(name), objects[name])[1])
    assert read == ["a", "b", "c"]
    first, second = (delta_of(each.snapshot.operators["counts"].keyed[0]).values for each in merged.tasks)
    assert (set(first), set(second)) == ({"a", "b", "c"}, {"b", "c"})


def stored():
    store = MemoryStore()
    for name in "ab":
        store.put_new(f"parts/{name}", encode_part(WorkerPart(1, [part(0, Delta({name: 1}, {}, []))])))
    return store


def test_an_object_is_named_by_the_epoch_of_the_order_and_no_name_comes_twice():
    store = stored()
    order = MergeParts(2, 3, 40, [(1, 0, ["parts/a", "parts/b"])])
    one, other = answer_to(order, store, 5), answer_to(order, store, 5)
    assert (one.execution, one.ordered) == (3, 40)
    assert one.name != other.name
    assert epoch_of(one.name) == 40
    assert decode_part(store.get(one.name), one.name).tasks


def test_what_cannot_be_merged_is_told_with_no_name(caplog):
    order = MergeParts(2, 3, 40, [(1, 0, ["parts/a", "parts/gone"])])
    assert answer_to(order, stored(), 5) == PartsMerged(3, 40, "")
    assert "parts/gone" in caplog.text


def test_a_thread_answers_beside_the_loop():
    there, told = threading.Event(), deque()
    merger = PartMerger(stored(), there.set)
    orders = deque([MergeParts(2, 3, 40, [(1, 0, ["parts/a", "parts/b"])])])
    merger.attend(orders, told, 5)
    assert there.wait(30)
    merger.close()
    assert not orders
    assert told[0].name
