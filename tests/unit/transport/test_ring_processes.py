"""The ring across real processes: load, deaths, stops, forks, namespaces and a small shared memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zlib

import pytest

from tailrace.transport import ring as face
from tailrace.transport.segments import Folder

if not face.AVAILABLE:
    pytest.skip(face.WHY_NOT, allow_module_level=True)

from tailrace.transport._ring import Ring

LONG_US = 30_000_000
PRODUCERS = 3
MESSAGES_EACH = 20_000


@pytest.fixture
def folder():
    made = Folder.make(watched=False)
    yield made.path
    made.close()


@pytest.fixture
def ring(folder):
    made = Ring.create(str(folder / "ring"), 65536)
    yield made
    made.close()


@pytest.fixture
def children():
    """Pids to be ended with the test, whatever it finds."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def spawn(work, *arguments):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work(*arguments)
            code = 0
        finally:
            os._exit(code)
    return pid


def message(producer, number):
    body = number.to_bytes(4, "little") + bytes([producer]) * ((number * 37 + producer) % 400)
    return zlib.crc32(body).to_bytes(4, "little") + body


def produce(path, producer):
    ring = Ring.attach(path)
    for number in range(MESSAGES_EACH):
        assert ring.post(producer, message(producer, number), LONG_US)
    ring.close()


def test_producers_of_several_processes_lose_double_and_tear_nothing(ring, children):
    children.extend(spawn(produce, ring.path, producer) for producer in range(PRODUCERS))
    following = [0] * PRODUCERS
    while sum(following) < PRODUCERS * MESSAGES_EACH:
        assert ring.wait(LONG_US), "a message or its wake-up was lost"
        for producer, payload in ring.receive(64, 0):
            assert payload == message(producer, following[producer])
            following[producer] += 1
    for pid in [children.pop() for _ in range(PRODUCERS)]:
        assert os.waitpid(pid, 0)[1] == 0
    assert ring.receive(64, 0) == []


def lent(number):
    """A message so large that a reader borrows it."""
    return b"m%d" % number * 2048


def borrow_and_report(path, pipe, count):
    ring = Ring.attach(path)
    assert len(ring.borrow(count, LONG_US)) == count
    os.write(pipe, b"x")
    signal.pause()


@pytest.fixture
def borrower(ring, children):
    for number in range(5):
        assert ring.post(number, lent(number), 0)
    reading, writing = os.pipe()
    pid = spawn(borrow_and_report, ring.path, writing, 3)
    children.append(pid)
    assert os.read(reading, 1) == b"x"
    os.close(reading)
    os.close(writing)
    return pid


def test_what_was_lent_to_a_killed_consumer_is_released(ring, children, borrower):
    os.kill(borrower, signal.SIGKILL)
    os.waitpid(borrower, 0)
    children.remove(borrower)
    got = []
    while len(got) < 5:
        assert ring.wait(LONG_US)
        got += ring.receive(64, 0)
    assert sorted(got) == [(number, lent(number)) for number in range(5)]
    assert ring.released_count == 3


def test_a_zombie_counts_as_dead(ring, children, borrower):
    os.kill(borrower, signal.SIGKILL)
    os.waitid(os.P_PID, borrower, os.WEXITED | os.WNOWAIT)
    got = []
    while len(got) < 5:
        assert ring.wait(LONG_US)
        got += ring.receive(64, 0)
    assert ring.released_count == 3


def test_a_stopped_consumer_keeps_what_was_lent_to_it(ring, children, borrower):
    os.kill(borrower, signal.SIGSTOP)
    os.waitpid(borrower, os.WUNTRACED)
    assert [payload for _, payload in ring.receive(64, 0)] == [lent(3), lent(4)]
    assert not ring.wait(100_000)
    assert ring.receive(64, 0) == []
    assert ring.released_count == 0
    assert ring.used_bytes > 0


def test_a_forked_child_is_a_peer_of_its_own(ring):
    assert ring.post(1, lent(1), 0)
    assert len(ring.borrow(1, 0)) == 1
    taken_bytes = ring.used_bytes

    def child():
        assert ring.post(2, b"child", 0)
        ring.end_borrowing()  # its parent's, not its own
        assert ring.used_bytes > taken_bytes
        ring.close()

    assert os.waitpid(spawn(child), 0)[1] == 0
    assert ring.used_bytes > taken_bytes
    assert ring.receive(64, 0) == [(2, b"child")]
    assert ring.used_bytes == 0


def test_many_short_lived_peers_do_not_use_up_the_places(ring):
    """A killed process leaves its place taken; when all are, the dead make room."""

    def die(path):
        for _ in range(300):
            handles.append(Ring.attach(path))
        os.kill(os.getpid(), signal.SIGKILL)

    handles: list[Ring] = []
    for _ in range(4):
        os.waitpid(spawn(die, ring.path), 0)
    Ring.attach(ring.path).close()


# ---- with the help of namespaces, where this user may make them ----


def may(*unshare):
    return subprocess.run(["unshare", *unshare, "true"], capture_output=True, check=False).returncode == 0


def run_python(code, *prefix):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    command = [*prefix, sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_a_ring_of_another_pid_namespace_is_refused(ring):
    if not may("--pid", "--fork", "--mount-proc"):
        pytest.skip("this user may not make a pid namespace")
    code = f"from tailrace.transport.ring import RingWriter; RingWriter({ring.path!r})"
    run = run_python(code, "unshare", "--pid", "--fork", "--mount-proc")
    assert "ForeignSegmentError" in run.stderr
    assert "another pid or time namespace" in run.stderr


SMALL = """
import contextlib, os
from pathlib import Path
from tailrace.transport import segments
from tailrace.transport.ring import RingReader, RingWriter
from tailrace.transport.segments import NoSharedMemoryError
for attempt in range(2):
    try:
        RingReader("/mnt/ring", 16 << 20)
    except NoSharedMemoryError as error:
        assert "No space" in str(error) or "no room" in str(error), error
    else:
        raise AssertionError("a ring larger than its file system was made")
assert os.listdir("/mnt") == []
reader = RingReader("/mnt/ring", 4 << 20, 64 << 20)      # grows only as far as there is memory
writer = RingWriter(reader.path)
try:
    reader.ring.resize(64 << 20)
except OSError as error:
    print("kept", reader.ring.ring_bytes, error.strerror)
try:
    writer.send(0, b"x" * (16 << 20))
except NoSharedMemoryError:
    print("large refused")
filled = 0
while writer.send(0, b"x" * 100_000):
    filled += 1
assert len(reader.receive(1000)) == filled > 30
print("ok", filled)
segments.SHARED_MEMORY = Path("/mnt")
with contextlib.suppress(OSError), open("/mnt/filler", "wb", buffering=0) as filler:
    while filler.write(b"x" * 4096):
        pass
folder = segments.Folder.make(watched=False)
print(folder.in_shared_memory, len(os.listdir("/mnt")))
folder.close()
"""


def test_a_small_shared_memory_is_a_named_error_never_a_sigbus():
    if not may("--mount"):
        pytest.skip("this user may not make a mount namespace")
    mount = 'mount -t tmpfs -o size=8m,mode=0700 none /mnt && exec "$@"'
    run = run_python(SMALL, "unshare", "--mount", "sh", "-c", mount, "sh")
    assert run.returncode == 0, run.stderr
    kept, large, done, folder = run.stdout.splitlines()
    assert kept.startswith("kept 4194304")
    assert large == "large refused"
    assert done.startswith("ok")
    assert folder == "False 2", "a folder in a full file system helps nobody"
