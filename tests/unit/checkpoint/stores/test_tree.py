"""Pointers as numbered files: how many stay, and writers that slept."""

from __future__ import annotations

import pytest

from tailrace.checkpoint.stores.folder import FolderStore
from tailrace.checkpoint.stores.tree import KEPT

NAME = "latest.pointer"


class Sleeper(FolderStore):
    """Lets others go first at the worst moment: after it has read a pointer, before it creates the next number."""

    meanwhile = None

    def _create(self, path, data):
        work, self.meanwhile = self.meanwhile, None
        if work is not None:
            work()
        return super()._create(path, data)


def write(store, count):
    for _ in range(count):
        found = store.get_tagged(NAME)
        assert store.put_if(NAME, b"%d" % (int(found.data) + 1), found.tag)


@pytest.fixture
def store(tmp_path):
    store = FolderStore(tmp_path)
    store.put_if(NAME, b"1", None)
    return store


def test_old_numbers_go(store, tmp_path):
    write(store, 3 * KEPT)
    numbers = sorted(int(path.name) for path in (tmp_path / NAME).iterdir())
    assert numbers == list(range(2 * KEPT + 2, 3 * KEPT + 2))
    assert store.get(NAME) == b"%d" % (3 * KEPT + 1)


@pytest.mark.parametrize("others", [1, KEPT - 1, KEPT, KEPT + 1, 3 * KEPT])
def test_who_slept_through_other_writes_has_lost(store, tmp_path, others):
    sleeper = Sleeper(tmp_path)
    sleeper.meanwhile = lambda: write(store, others)
    assert sleeper.put_if(NAME, b"stale", sleeper.get_tagged(NAME).tag) is None
    assert store.get(NAME) == sleeper.get(NAME) == b"%d" % (others + 1)
    write(store, 1)
    assert store.get(NAME) == b"%d" % (others + 2)


def test_the_tag_of_a_deleted_pointer_fits_no_later_one(store):
    tag = store.get_tagged(NAME).tag
    store.delete(NAME)
    store.put_if(NAME, b"another", None)
    assert store.put_if(NAME, b"stale", tag) is None
