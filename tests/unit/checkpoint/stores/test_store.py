"""Names are checked before a store sees them; errors say whether to try again."""

from __future__ import annotations

import pickle

import pytest

from tailrace.checkpoint import stores
from tailrace.checkpoint.stores import ObjectNameError, StoreError
from tailrace.checkpoint.stores.memory import MemoryStore
from tailrace.checkpoint.stores.store import NAME_BYTES_MAX, SEGMENT_BYTES_MAX

WRONG_NAMES = [
    "", "/a", "a/", "a//b", "../a", "a/../b", "a/./b", ".hidden", "a/.hidden", "a b", "a\\b", "a?b", "ä", "a\n", "-a",
    "x.pointer/y", "a" * (SEGMENT_BYTES_MAX + 1), "/".join(["a" * 99] * (NAME_BYTES_MAX // 99 + 1)),
]  # fmt: skip


@pytest.mark.parametrize("name", WRONG_NAMES)
def test_a_wrong_name_is_refused(name):
    store = MemoryStore()
    for call in (store.get, store.delete, lambda name: store.put_new(name, b"")):
        with pytest.raises(ObjectNameError, match="A name must be"):
            call(name)
    if name:
        with pytest.raises(ObjectNameError, match="A name must be"):
            store.list(name)
    assert not store.list()


@pytest.mark.parametrize("name", ["a", "_a", "a/b=1/c-2_d.e", "A" * SEGMENT_BYTES_MAX, "x.pointers", "now.pointer"])
def test_a_right_name_is_taken(name):
    assert not MemoryStore().list(name)


def test_only_what_may_pass_by_itself_is_transient():
    kinds = [each for each in vars(stores).values() if isinstance(each, type) and issubclass(each, StoreError)]
    assert [kind.__name__ for kind in kinds if kind.transient] == ["StoreUnreachableError"]
    assert len(kinds) == 9


def test_an_error_travels_with_its_hint():
    error = pickle.loads(pickle.dumps(stores.StoreUnreachableError("what", "do")))
    assert (type(error), str(error), error.transient) == (stores.StoreUnreachableError, "what\ndo", True)
