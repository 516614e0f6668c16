"""Folders under several processes, kills, full and closed disks, and mounts that answer oddly."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tailrace
from tailrace.checkpoint.stores import (
    ObjectMissingError,
    StoreAddressError,
    StoreFullError,
    StorePermissionError,
    StoreUnreachableError,
    StoreUnsupportedError,
    open_store,
)
from tailrace.checkpoint.stores.folder import FolderStore
from tailrace.checkpoint.stores.tree import LEFTOVER_AGE_S

NOBODY = 65534
RACE = """
store, me = open_store(sys.argv[1]), sys.argv[2].encode()
print("ready", flush=True)
sys.stdin.readline()
print([turn for turn in range(100) if store.put_new(f"epochs/{turn}/manifest", me)])
"""
KILLED_BEFORE_LINK = """
store = open_store(sys.argv[1])
os.link = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
store.put_new("epochs/1/manifest", b"whole")
"""
AS_NOBODY = f"""
os.setgid({NOBODY}), os.setuid({NOBODY})
try:
    getattr(open_store(sys.argv[1], writable=sys.argv[2] == "open"), sys.argv[2])(*sys.argv[3:])
except StoreError as error:
    print(type(error).__name__, error)
"""
SMALL_FILES = """
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    open_store(sys.argv[1]).put_new("part", bytes(20_000))
except StoreError as error:
    print(type(error).__name__, error)
"""
IMPORTS = "import os, resource, signal, sys\nfrom tailrace.checkpoint.stores import StoreError, open_store\n"


def start(code, *arguments):
    environment = os.environ | {"PYTHONPATH": str(Path(tailrace.__file__).parents[1])}
    command = [sys.executable, "-c", IMPORTS + code, *map(str, arguments)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def result_of(process):
    out, err = process.communicate("\n", timeout=60)
    assert process.returncode == 0, err
    return out


def hidden(folder):
    return [path for path in Path(folder).rglob("*") if path.name.startswith(".")]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tailrace-test", disk], check=False)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.fixture
def as_nobody(tmp_path):
    if os.getuid():
        pytest.skip("only root can become someone else")
    for folder in (tmp_path, *tmp_path.parents[:2]):  # pytest keeps all of its own closed to others
        folder.chmod(0o755)
    return lambda *arguments: result_of(start(AS_NOBODY, *arguments))


# -- several processes -----------------------------------------------------------------------------------------------


def test_of_several_processes_one_creates_each_object(tmp_path):
    racers = [start(RACE, tmp_path, name) for name in "abcd"]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("\n")
        racer.stdin.flush()
    won = [eval(result_of(racer)) for racer in racers]
    assert sorted(turn for turns in won for turn in turns) == list(range(100))
    store = open_store(tmp_path)
    for name, turns in zip("abcd", won, strict=True):
        assert all(store.get(f"epochs/{turn}/manifest") == name.encode() for turn in turns)
    assert not hidden(tmp_path)


def test_a_writer_killed_before_its_link_leaves_nothing_to_be_seen(tmp_path):
    killed = start(KILLED_BEFORE_LINK, tmp_path)
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    (left,) = hidden(tmp_path)
    assert left.read_bytes() == b"whole"
    store = open_store(tmp_path)
    assert not store.list()
    with pytest.raises(ObjectMissingError):
        store.get("epochs/1/manifest")
    assert left.exists()  # it is young: its writer may live
    assert store.put_new("epochs/1/manifest", b"of the next")
    assert [each.name for each in store.list()] == ["epochs/1/manifest"]


def test_old_leftovers_are_removed_when_a_store_is_opened_to_be_written(tmp_path):
    open_store(tmp_path).put_new("a/b", b"kept")
    old, young = tmp_path / "a" / ".writing-old", tmp_path / ".writing-young"
    for path in (old, young):
        path.write_bytes(b"")
    before_s = old.stat().st_mtime - LEFTOVER_AGE_S - 5
    for path in (old, tmp_path / "a" / "b"):
        os.utime(path, (before_s, before_s))
    open_store(tmp_path, writable=False)
    assert old.exists()
    store = open_store(tmp_path)
    assert hidden(tmp_path) == [young]
    assert store.get("a/b") == b"kept"


# -- what a disk can say ---------------------------------------------------------------------------------------------


def test_a_full_disk(small_disk):
    store = open_store(small_disk)
    assert store.put_new("small", b"1")
    with pytest.raises(StoreFullError, match=r"'parts/large' at .*No space left") as failed:
        store.put_new("parts/large", bytes(2_000_000))
    assert not failed.value.transient
    assert "Free some room" in failed.value.hint
    assert not hidden(small_disk)
    assert [each.name for each in store.list()] == ["small"]
    assert store.put_new("parts/fits", bytes(2000))


def test_a_read_only_disk(small_disk):
    store = open_store(small_disk)
    store.put_new("there", b"1")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    for call in (lambda: open_store(small_disk), lambda: store.put_new("new", b""), lambda: store.delete("there")):
        with pytest.raises(StorePermissionError, match="Read-only"):
            call()
    assert open_store(small_disk, writable=False).get("there") == b"1"


def test_a_file_larger_than_files_may_be(tmp_path):
    said = result_of(start(SMALL_FILES, tmp_path))
    assert said.startswith("StoreFullError Expected room to write 'part'")
    assert not hidden(tmp_path)


def test_no_permission(tmp_path, as_nobody):
    folder = tmp_path / "checkpoints"
    store = open_store(folder)
    store.put_new("mine", b"1")
    (folder / "mine").chmod(0o600)
    assert as_nobody(folder, "open").startswith(f"StorePermissionError Expected permission to open {folder}")
    assert "StorePermissionError" in as_nobody(folder, "get", "mine")
    assert "StorePermissionError" in as_nobody(folder, "delete", "mine")
    assert "StorePermissionError" in as_nobody(tmp_path / "new", "open")
    assert store.get("mine") == b"1"


def test_a_path_that_is_a_file(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"")
    for path in (file, file / "below"):
        for writable in (True, False):
            with pytest.raises((StoreAddressError, ObjectMissingError), match=f"{path}"):
                open_store(path, writable=writable)
    with pytest.raises(StoreAddressError, match="a folder to open"):
        open_store(file)
    with pytest.raises(StoreAddressError, match="a folder to open"):
        open_store(file, writable=False)


def test_a_reader_needs_a_folder_and_makes_none(tmp_path):
    with pytest.raises(ObjectMissingError, match="to be there to open it"):
        open_store(tmp_path / "none", writable=False)
    assert not list(tmp_path.iterdir())


# -- what mounts can say ---------------------------------------------------------------------------------------------


def fail_link(monkeypatch, number, *, after=False):
    link = os.link

    def failing(source, target):
        if after:
            link(source, target)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", failing)


def test_a_mount_without_hard_links_is_refused_when_it_is_opened(tmp_path, monkeypatch):
    fail_link(monkeypatch, errno.EPERM)
    with pytest.raises(StoreUnsupportedError, match="hard links"):
        open_store(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [errno.EEXIST, errno.EIO, errno.ETIMEDOUT])
def test_a_link_whose_answer_was_lost_counts(tmp_path, monkeypatch, number):
    store = open_store(tmp_path)
    fail_link(monkeypatch, number, after=True)
    assert store.put_new("a", b"mine") is True
    assert store.get("a") == b"mine"
    assert not hidden(tmp_path)


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
def test_a_server_that_does_not_answer_may_answer_later(tmp_path, monkeypatch, number):
    store = open_store(tmp_path)
    with monkeypatch.context() as broken:
        fail_link(broken, number)
        with pytest.raises(StoreUnreachableError) as failed:
            store.put_new("a", b"mine")
    assert failed.value.transient
    assert not hidden(tmp_path)
    assert store.put_new("a", b"mine") is True


def test_the_folder_of_a_new_object_may_be_removed_meanwhile(tmp_path, monkeypatch):
    store = FolderStore(tmp_path)
    left, make = [3], Path.mkdir

    def removed_again(self, *arguments, **options):
        make(self, *arguments, **options)
        if left[0]:
            left[0] -= 1
            self.rmdir()

    monkeypatch.setattr(Path, "mkdir", removed_again)
    assert store.put_new("a", b"1")
    assert store.put_new("b/c", b"1")
    assert left == [0]
    assert store.get("b/c") == b"1"
