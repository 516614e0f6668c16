"""Folders in shared memory: private, provable, and gone when their owner is, whatever ended it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tailrace.transport import reaping, segments
from tailrace.transport.segments import Folder, ForeignSegmentError, NoSharedMemoryError, Probe, reads_probe

GONE_S_MAX = 20


@pytest.fixture
def base(tmp_path):
    path = tmp_path / "base"
    path.mkdir()
    return path


def names(folder):
    return [entry.name for entry in folder.iterdir()]


def dead_identity(**changes):
    return reaping.own_identity()._replace(start_ticks=1)._replace(**changes)


def test_a_folder_is_private_and_has_a_random_name(base):
    one, two = Folder.make(base, watched=False), Folder.make(base, watched=False)
    assert one.path != two.path
    assert one.path.stat().st_mode & 0o777 == 0o700
    assert reaping.owner_of(one.path.name) == reaping.own_identity()
    one.close()
    assert names(base) == [two.path.name]


def test_shared_memory_is_preferred():
    folder = Folder.make(watched=False)
    assert folder.in_shared_memory == (folder.path.parent == segments.SHARED_MEMORY)
    folder.close()


def test_no_folder_is_a_named_error(base):
    with pytest.raises(NoSharedMemoryError):
        Folder.make(base / "missing", watched=False)


def test_only_who_reads_the_nonce_is_on_this_node(base):
    folder = Folder.make(base, watched=False)
    probe = folder.write_probe()
    assert reads_probe(probe)
    assert not reads_probe(probe._replace(nonce="0" * 32))
    assert not reads_probe(probe._replace(nonce=""))
    assert not reads_probe(Probe(str(folder.path / "other"), probe.nonce))
    Path(probe.path).chmod(0o644)
    assert not reads_probe(probe)


def test_files_are_created_exclusively(base):
    folder = Folder.make(base, watched=False)
    path = str(folder.path / "file")
    os.close(segments.create_file(path))
    assert Path(path).stat().st_mode & 0o777 == 0o600
    with pytest.raises(ForeignSegmentError, match="something there"):
        segments.create_file(path)
    (folder.path / "link").symlink_to("/nowhere")
    with pytest.raises(ForeignSegmentError, match="a link"):
        segments.create_file(str(folder.path / "link"))


def test_foreign_files_are_refused(base):
    folder = Folder.make(base, watched=False)
    path = str(folder.path / "file")
    os.close(segments.create_file(path))
    segments.check_ours(path)
    (folder.path / "link").symlink_to(path)
    with pytest.raises(ForeignSegmentError, match="symbolic link"):
        segments.check_ours(str(folder.path / "link"))
    with pytest.raises(ForeignSegmentError, match="not a regular file"):
        segments.check_ours(str(folder.path))
    folder.path.chmod(0o755)
    with pytest.raises(ForeignSegmentError, match="0755"):
        segments.check_ours(path)
    if os.geteuid() == 0:
        folder.path.chmod(0o700)
        os.chown(path, 12345, -1)
        with pytest.raises(ForeignSegmentError, match="12345"):
            segments.check_ours(path)


def test_reaping_takes_the_dead_and_leaves_the_living_and_the_unknown(base):
    living = Folder.make(base, watched=False).path.name
    elsewhere = reaping.name_for(dead_identity(namespace=1), "ab")
    kept = {living, elsewhere, "tailrace-notes", "other", "tailrace-1-x-2-ab"}
    for name in kept - {living}:
        (base / name).mkdir()
    reused_pid = base / reaping.name_for(dead_identity(), "cd")
    reused_pid.mkdir()
    (reused_pid / "ring").touch()
    (base / reaping.name_for(dead_identity(), "link")).symlink_to("/")
    assert set(reaping.reap(base)) == {living, elsewhere}
    assert set(names(base)) - {reaping.name_for(dead_identity(), "link")} == kept


def test_a_zombie_is_dead():
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert reaping.own_identity()._replace(pid=process.pid).is_dead()
    assert not reaping.own_identity().is_dead()


def test_a_forked_child_does_not_remove_its_parents_folder(base):
    folder = Folder.make(base, watched=False)
    pid = os.fork()
    if pid == 0:
        folder.close()
        os._exit(0)
    os.waitpid(pid, 0)
    assert folder.path.is_dir()


OWNER = """
import sys
from pathlib import Path
from tailrace.transport.segments import Folder
folder = Folder.make(Path(sys.argv[1]))
(folder.path / "ring").touch()
print(folder.path, flush=True)
sys.stdin.read()
"""


def start_owner(base):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", OWNER, str(base)], stdin=pipe, stdout=pipe, env=environment)


def wait_until_empty(base):
    deadline_s = time.monotonic() + GONE_S_MAX
    while names(base) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return names(base)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the watcher needs /proc")
def test_the_watcher_removes_the_folders_of_killed_owners(base):
    with start_owner(base) as one, start_owner(base) as two:
        for owner in (one, two):
            assert owner.stdout.readline().strip()
        assert len(names(base)) == 2
        one.send_signal(signal.SIGKILL)
        one.wait()
        deadline_s = time.monotonic() + GONE_S_MAX
        while len(names(base)) > 1 and time.monotonic() < deadline_s:
            time.sleep(0.05)
        [left] = names(base)
        assert reaping.owner_of(left).pid == two.pid
        two.send_signal(signal.SIGKILL)
    assert wait_until_empty(base) == []


def test_an_owner_of_whom_nothing_is_known_counts_as_alive(monkeypatch):
    owner = reaping.own_identity()
    assert not owner._replace(start_ticks=0).is_dead()
    monkeypatch.setattr(reaping, "_start_ticks", lambda _pid: 0)
    assert not owner.is_dead()
