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
        assert ring.send(producer, message(producer, number), LONG_US)
    ring.close()


def test_producers_of_several_processes_lose_double_and_tear_nothing(ring, children):
    children.extend(spawn(produce, ring.path, producer) for producer in range(PRODUCERS))
    following = [0] * PRODUCERS
    while sum(following) < PRODUCERS * MESSAGES_EACH:
        assert ring.wait(LONG_US), "a message or its wake-up was lost"
        for producer, payload in ring.recv():
            assert payload == message(producer, following[producer])
            following[producer] += 1
    for pid in [children.pop() for _ in range(PRODUCERS)]:
        assert os.waitpid(pid, 0)[1] == 0
    assert ring.recv() == []


def claim_and_report(path, pipe, count):
    ring = Ring.attach(path)
    claimed = 0
    while claimed < count:
        ring.wait(LONG_US)
        claimed += len(ring.claim(count - claimed))
    os.write(pipe, b"x")
    signal.pause()


@pytest.fixture
def claimer(ring, children):
    for number in range(5):
        assert ring.try_send(number, b"m%d" % number)
    reading, writing = os.pipe()
    pid = spawn(claim_and_report, ring.path, writing, 3)
    children.append(pid)
    assert os.read(reading, 1) == b"x"
    os.close(reading)
    os.close(writing)
    return pid


def test_the_claims_of_a_killed_consumer_are_released(ring, children, claimer):
    os.kill(claimer, signal.SIGKILL)
    os.waitpid(claimer, 0)
    children.remove(claimer)
    got = []
    while len(got) < 5:
        assert ring.wait(LONG_US)
        got += ring.recv()
    assert sorted(got) == [(number, b"m%d" % number) for number in range(5)]
    assert ring.released_count == 3


def test_a_zombie_counts_as_dead(ring, children, claimer):
    os.kill(claimer, signal.SIGKILL)
    os.waitid(os.P_PID, claimer, os.WEXITED | os.WNOWAIT)
    got = []
    while len(got) < 5:
        assert ring.wait(LONG_US)
        got += ring.recv()
    assert ring.released_count == 3


def test_a_stopped_consumer_keeps_its_claims(ring, children, claimer):
    os.kill(claimer, signal.SIGSTOP)
    os.waitpid(claimer, os.WUNTRACED)
    assert [payload for _, payload in ring.recv()] == [b"m3", b"m4"]
    assert not ring.wait(100_000)
    assert ring.recv() == []
    assert ring.released_count == 0
    assert ring.used_bytes > 0


def test_a_forked_child_is_a_peer_of_its_own(ring):
    assert ring.try_send(1, b"parent")
    [(token, _, _)] = ring.claim()

    def child():
        assert ring.try_send(2, b"child")
        with pytest.raises(ValueError, match="not claimed"):
            ring.done(token)
        ring.close()

    assert os.waitpid(spawn(child), 0)[1] == 0
    ring.done(token)
    assert ring.recv() == [(2, b"child")]


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
    code = f"from tailrace.transport.ring import Outlet; Outlet({ring.path!r})"
    run = run_python(code, "unshare", "--pid", "--fork", "--mount-proc")
    assert "ForeignSegmentError" in run.stderr
    assert "another pid or time namespace" in run.stderr


SMALL = """
import contextlib, os
from pathlib import Path
from tailrace.transport import segments
from tailrace.transport.ring import Inbox, Outlet
from tailrace.transport.segments import NoSharedMemoryError
for attempt in range(2):
    try:
        Inbox("/mnt/ring", 16 << 20)
    except NoSharedMemoryError as error:
        assert "No space" in str(error) or "no room" in str(error), error
    else:
        raise AssertionError("a ring larger than its file system was made")
assert os.listdir("/mnt") == []
inbox = Inbox("/mnt/ring", 4 << 20, 64 << 20)      # grows only as far as there is memory
outlet = Outlet(inbox.path)
try:
    inbox.ring.resize(64 << 20)
except OSError as error:
    print("kept", inbox.ring.ring_bytes, error.strerror)
try:
    outlet.send(0, b"x" * (16 << 20))
except NoSharedMemoryError:
    print("large refused")
filled = 0
while outlet.send(0, b"x" * 100_000):
    filled += 1
assert len(inbox.receive(1000)) == filled > 30
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
