"""What every store holds to. A test class derives from ``StoreContract`` and gives the fixture ``opener``.

``opener()`` opens the same store once more, as another process would; it begins empty for each test.
"""

from __future__ import annotations

import random
import threading

import pytest

from tailrace.checkpoint.stores import ObjectMissingError, ObjectNameError, claim


def at_once(count, work):
    """Run ``work(number)`` in threads that begin together; give what they returned."""
    barrier, results, errors = threading.Barrier(count), [None] * count, []

    def run(number):
        try:
            barrier.wait(30)
            results[number] = work(number)
        except Exception as error:  # noqa: BLE001 - shown in the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    return results


class StoreContract:
    #: Calls in a random run; fewer where a store is slow.
    turns = 60

    @pytest.fixture
    def store(self, opener):
        return opener()

    # -- objects -------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("size", [0, 1, 4096, 3_000_000])
    def test_what_was_put_is_read_by_another_client(self, store, opener, size):
        data = random.Random(size).randbytes(size)
        assert store.put_new("epochs/1/part", data) is True
        found = opener().get("epochs/1/part")
        assert type(found) is bytes
        assert found == data

    def test_an_object_is_never_overwritten(self, store, opener):
        assert store.put_new("a/b", b"first") is True
        assert store.put_new("a/b", b"second") is False
        assert opener().put_new("a/b", b"first") is False
        assert store.get("a/b") == b"first"

    def test_a_missing_object_is_named(self, store):
        with pytest.raises(ObjectMissingError, match="no/such"):
            store.get("no/such")
        store.put_new("no/such/deeper", b"")
        with pytest.raises(ObjectMissingError):
            store.get("no/such")

    def test_after_a_deletion_a_name_is_free(self, store):
        store.delete("a/b/c")
        store.put_new("a/b/c", b"1")
        store.put_new("a/b/d", b"1")
        store.delete("a/b/c")
        with pytest.raises(ObjectMissingError):
            store.get("a/b/c")
        assert [each.name for each in store.list()] == ["a/b/d"]
        store.delete("a/b/d")
        assert list(store.list()) == []
        assert store.put_new("a/b/c", b"2") is True
        assert store.get("a/b/c") == b"2"

    def test_of_writers_that_begin_together_one_wins(self, opener):
        stores = [opener() for _ in range(4)]
        for turn in range(5):
            won = at_once(4, lambda number, turn=turn: stores[number].put_new(f"epoch-{turn}/manifest", b"%d" % number))
            assert won.count(True) == 1
            assert stores[0].get(f"epoch-{turn}/manifest") == b"%d" % won.index(True)

    def test_a_claim_can_be_repeated(self, store):
        assert claim(store, "manifest", b"attempt 1") is True
        assert claim(store, "manifest", b"attempt 1") is True
        assert claim(store, "manifest", b"attempt 2") is False

    # -- listing -------------------------------------------------------------------------------------------------

    def test_a_listing_has_what_is_below_whole_segments_in_order(self, store):
        assert list(store.list()) == []
        for name in ("b", "a/2/x", "a/10", "ab/c", "a/2/y"):
            store.put_new(name, name.encode())
        assert store.put_if("a/2/now.pointer", b"seven", None)
        listed = [(each.name, each.size_bytes) for each in store.list("a")]
        assert listed == [("a/10", 4), ("a/2/now.pointer", 5), ("a/2/x", 5), ("a/2/y", 5)]
        assert [each.name for each in store.list("a/2")] == ["a/2/now.pointer", "a/2/x", "a/2/y"]
        assert [each.name for each in store.list()][0::4] == ["a/10", "ab/c"]
        assert list(store.list("none")) == []

    # -- pointers ------------------------------------------------------------------------------------------------

    def test_a_pointer_is_replaced_only_by_who_has_its_tag(self, store, opener):
        with pytest.raises(ObjectMissingError, match=r"latest\.pointer"):
            store.get_tagged("latest.pointer")
        first = store.put_if("latest.pointer", b"1", None)
        assert first is not None
        assert store.put_if("latest.pointer", b"x", None) is None
        other = opener()
        assert other.get("latest.pointer") == b"1"
        second = other.put_if("latest.pointer", b"2", other.get_tagged("latest.pointer").tag)
        assert second is not None
        assert store.put_if("latest.pointer", b"x", first) is None
        assert store.put_if("latest.pointer", b"3", second) is not None
        assert other.get_tagged("latest.pointer").data == b"3"

    def test_a_pointer_that_was_deleted_has_no_tag(self, store):
        tag = store.put_if("a/latest.pointer", b"1", None)
        tag = store.put_if("a/latest.pointer", b"2", tag)
        store.delete("a/latest.pointer")
        assert store.put_if("a/latest.pointer", b"3", tag) is None
        assert list(store.list()) == []
        assert store.put_if("a/latest.pointer", b"4", None) is not None
        assert store.get("a/latest.pointer") == b"4"

    def test_no_increment_is_lost(self, opener):
        def count(number):
            store, done = opener(), 0
            while done < 5:
                found = store.get_tagged("count.pointer")
                done += store.put_if("count.pointer", b"%d" % (int(found.data) + 1), found.tag) is not None

        opener().put_if("count.pointer", b"0", None)
        at_once(3, count)
        assert opener().get("count.pointer") == b"15"

    # -- names ---------------------------------------------------------------------------------------------------

    def test_objects_and_pointers_are_told_by_their_names(self, store):
        with pytest.raises(ObjectNameError, match="put_if"):
            store.put_new("latest.pointer", b"")
        with pytest.raises(ObjectNameError, match="put_new"):
            store.put_if("latest", b"", None)
        with pytest.raises(ObjectNameError, match="put_new"):
            store.get_tagged("latest")

    # -- all of it -----------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("seed", range(3))
    def test_any_run_of_calls_does_as_a_dict_does(self, opener, seed):
        chance, stores, model, tags = random.Random(seed), [opener(), opener()], {}, {}
        names = ["a", "b/a", "b/c", "b/d/e", "p.pointer", "b/q.pointer"]
        for turn in range(self.turns):
            store, name, data = chance.choice(stores), chance.choice(names), b"%d" % turn
            if chance.random() < 0.2:
                store.delete(name)
                model.pop(name, None)
            elif not name.endswith(".pointer"):
                assert store.put_new(name, data) is (name not in model)
                model.setdefault(name, data)
            else:
                known = tags.get(name) if chance.random() < 0.7 else None
                holds = known == (tags[name] if name in model else None)
                tag = store.put_if(name, data, known)
                assert (tag is not None) is holds
                if tag is not None:
                    model[name], tags[name] = data, tag
            assert {each.name: store.get(each.name) for each in chance.choice(stores).list()} == model
