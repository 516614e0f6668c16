"""The backend on disk: what it keeps in memory, what becomes of its folder, and what is said when the disk fails.

That its semantics are those of the one in memory is held by the machine of ``test_memory``.
"""

from __future__ import annotations

import builtins
import pickle
import resource
import threading

import pytest
from tests.unit.state.rig import TemporaryFolder, disk

import tailrace as tr
from tailrace import testing
from tailrace.config import Settings
from tailrace.routing.fields import group_of
from tailrace.state.backend import Delta
from tailrace.state.errors import StateExtraMissingError, StateStorageError
from tailrace.state.named import NAMED, user_key
from tailrace.state.scratch import ScratchStore
from tailrace.worker.execution.backends import backends_of, disk_backends


class Folders:
    """Hands folders out and knows them."""

    def __init__(self):
        self.made = []

    def __call__(self):
        self.made.append(TemporaryFolder())
        return self.made[-1]


def filled(keys, **how):
    backend = disk(**how)
    for key in keys:
        backend.put(key, [key])
    backend.cell()
    return backend


def test_nothing_is_on_disk_while_all_keys_find_room():
    folders = Folders()
    backend = filled(range(20), cache_keys=10, make_folder=folders)
    assert not folders.made
    backend.put(20, 1)
    backend.cell()
    assert len(folders.made) == 1
    assert len(backend.table) == 10
    assert len(backend) == 21
    backend.close()
    assert not folders.made[0].path.exists()


def test_the_folder_goes_with_the_backend():
    folders = Folders()
    backend = filled(range(20), make_folder=folders)
    assert folders.made[0].path.exists()
    del backend
    assert not folders.made[0].path.exists()


def test_keys_that_are_touched_again_stay_in_memory():
    backend = filled(range(100), cache_keys=20, place=lambda key: key.to_bytes(12, "big"))
    for new in range(100, 1000):
        backend.touch([1, 2, 3, new])
        backend.table[new] = [new]
        assert new < 103 or {1, 2, 3} <= set(backend.table)
    assert dict(backend.items()) == {key: [key] for key in range(1000)}


def test_equal_keys_are_one_key_and_the_first_one_stays():
    backend = filled([1, "x", "y", "z", "u"], cache_keys=1)
    assert 1 not in backend.table
    backend.put(1.0, "new")
    backend.touch(["x", "y", "z"])
    assert sorted(map(repr, dict(backend.items()))) == ["'u'", "'x'", "'y'", "'z'", "1"]
    assert backend.get(True) == "new"


def test_a_value_may_be_written_from_any_thread():
    backend = filled(range(100))
    thread = threading.Thread(target=lambda: (backend.get(3).append("there"), backend.touch(range(50, 60))))
    thread.start()
    thread.join()
    assert backend.get(3) == [3, "there"]
    assert len(backend) == 100


def test_the_file_grows_with_the_state():
    store = ScratchStore(TemporaryFolder, map_bytes=64 * 1024)
    data = {number.to_bytes(8, "big"): bytes([number % 256]) * 2000 for number in range(1000)}
    store.write(data)
    assert dict(store.scan(b"", b"", 2000)) == data
    assert [store.get(name) for name in data] == list(data.values())
    store.close()


def test_a_disk_without_room_is_named_and_nothing_goes_on_with_less():
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    backend = filled(range(10))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024 * 1024, limits[1]))
    try:
        with pytest.raises(StateStorageError, match=r"was to be written to .*tailrace-test-state"):
            backend.apply(Delta(dict.fromkeys(range(10_000), b"x" * 10_000), {}, []))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    with pytest.raises(StateStorageError):
        backend.get(5)
    backend.close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    settings = Settings(state_backend="disk", state_folder=str(tmp_path / "file" / "below"), state_cache_keys=1)
    backend = disk_backends(settings, 4)("counts")
    with pytest.raises(StateStorageError, match=r"A folder for state was expected below .*file/below"):
        backend.apply(as_delta(range(2000)))


def as_delta(keys):
    return Delta({key: key for key in keys}, {}, [])


def test_workers_name_their_folder_and_keep_it_below_the_one_given(tmp_path):
    settings = Settings(state_backend="disk", state_folder=str(tmp_path / "state"), state_cache_keys=10)
    backend = disk_backends(settings, 4)("counts")
    backend.apply(as_delta([*range(2000), "1", b"1", ("a", 1), None, 2.5]))
    assert [each.name.startswith("tailrace-") for each in (tmp_path / "state").iterdir()] == [True]
    groups = [dict(backend.items([group])) for group in range(4)]
    assert sum(map(len, groups)) == len(backend) == 2005
    assert all(groups)
    backend.close()
    assert not list((tmp_path / "state").iterdir())


def test_a_query_ends_by_name_whatever_on_error_says(tmp_path):
    (tmp_path / "file").write_text("in the way")
    settings = Settings(state_backend="disk", state_folder=str(tmp_path / "file"), state_cache_keys=1)
    flow, out = tr.Topology("full"), tr.sinks.collect()
    numbers = flow.source(tr.sources.items(range(2000)))
    numbers.key_by(lambda v: v).process(lambda key, value, state: state.set(value), on_error="skip").sink(out)
    with pytest.raises(StateStorageError, match="A folder for state was expected below"):
        testing.run(flow, workers=1, settings=settings)


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_all_parts_of_a_users_key_are_in_its_group(kind, tmp_path):
    settings = Settings(state_backend=kind, state_folder=str(tmp_path), state_cache_keys=10)
    backend = backends_of(settings, 16)("visits")
    keys = ["ada", 7, ("b", 1), None, 2.5]
    parts = {(NAMED, key, name, number): number for key in keys for name in ("a", "b") for number in range(100)}
    backend.apply(Delta({**parts, **dict.fromkeys(keys, "plain")}, {}, []))
    found = [dict(backend.items([group])) for group in range(16)]
    assert {key: value for each in found for key, value in each.items()} == dict(backend.items())
    for each in found:
        of_users = {user_key(key) for key in each}
        assert len(each) == 201 * len(of_users)
        assert of_users == {key for key in keys if group_of(key, 16) in {group_of(one, 16) for one in of_users}}
    backend.close()


def test_a_value_that_cannot_be_written_is_named():
    backend = disk()
    for key in range(10):
        backend.put(key, threading.Lock())
    with pytest.raises(StateStorageError, match=r"The state of one of the keys \[.*\] cannot be kept on disk"):
        backend.cell()


def test_without_the_library_it_does_not_begin(monkeypatch):
    imported = builtins.__import__

    def without(name, *rest):
        if name == "lmdb":
            raise ImportError(name)
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(StateExtraMissingError, match="needs the library lmdb"):
        disk_backends(Settings(state_backend="disk"), 4)


def test_what_is_on_disk_is_what_pickle_carries():
    backend = filled([("a", 1), "b", 3], cache_keys=1)
    assert pickle.dumps(sorted(map(repr, backend.items()))) == pickle.dumps(
        ["('b', ['b'])", "(('a', 1), [('a', 1)])", "(3, [3])"]
    )
    backend.close()
