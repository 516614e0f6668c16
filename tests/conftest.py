"""What every test gets: nothing of Tailrace may stay in shared memory, and Spark's leftovers are tidied away.

local-cluster writes a folder per application under SPARK_HOME/work and never removes it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import time
from pathlib import Path

import pytest
from tests.lanes import pytest_collection_modifyitems, pytest_xdist_make_scheduler, spark_home  # noqa: F401 - hooks

from tailrace.transport import reaping

SHARED_MEMORY = Path("/dev/shm")
# Processes that were told to stop may still be on their way out when the test is over.
LEAK_GRACE_S = 5.0
# Processes that this one starts inherit it; it tells them from those of another run, or of another process of this run.
RUN_TAG = f"TAILRACE_TEST_RUN={os.getpid()}-{time.time_ns()}".encode()
os.environ["TAILRACE_TEST_RUN"] = RUN_TAG.decode().partition("=")[2]
ROOT = Path(__file__).parents[1]


def pytest_configure(config):
    _refuse_old_builds()
    if hasattr(config, "workerinput"):  # one of several processes
        config.spark_home = spark_home()
        os.environ["SPARK_HOME"] = str(config.spark_home)


def pytest_unconfigure(config):
    if hasattr(config, "spark_home"):
        shutil.rmtree(config.spark_home, ignore_errors=True)


def _refuse_old_builds():
    """Refuse to test modules that were compiled from other sources than those in the tree."""
    lines = (ROOT / "native" / "compiled.txt").read_text(encoding="utf-8").splitlines()
    sources = [ROOT / line for line in lines if line and not line.startswith("#")]
    for source in sources:
        for built in source.parent.glob(f"{source.stem}.*.so"):
            if built.stat().st_mtime < source.stat().st_mtime:
                pytest.exit(f"{source.name} is newer than what was compiled from it: `make setup`, or `make plain`", 3)


def _shared_files() -> set[str]:
    if not SHARED_MEMORY.is_dir():
        return set()
    return {path.name for path in SHARED_MEMORY.iterdir() if "tailrace" in path.name.lower()}


def _of_this_run(pid: int) -> bool:
    """Tell whether this process started it. Without a tag, as in an environment made again, its session tells."""
    if pid == os.getpid():
        return True
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    tags = [each for each in variables if each.startswith(b"TAILRACE_TEST_RUN=")]
    return RUN_TAG in tags if tags else os.getsid(pid) == os.getsid(0)


def _sockets_under(path: str) -> set[str]:
    """List the Unix sockets bound below a path, in the form in which /proc shows them among open files."""
    rows = (line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:])
    return {f"socket:[{row[6]}]" for row in rows if len(row) > 7 and row[7].startswith(path)}


def _in_use_elsewhere(name: str) -> bool:
    """Tell whether a living process of another run owns it, maps it or listens in it: runs may share a machine."""
    owner = reaping.owner_of(name)
    if owner is not None and not owner.is_dead():
        with contextlib.suppress(OSError):
            return not _of_this_run(owner.pid)
    path = str(SHARED_MEMORY / name)
    sockets = _sockets_under(path)
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or belongs to someone else
            if _of_this_run(int(process.name)):
                continue
            opened = {str(link.readlink()) for link in (process / "fd").iterdir()}
            if path in (process / "maps").read_text() or opened & sockets:
                return True
    return False


def _left_behind(before: set[str]) -> set[str]:
    """Name what this run added and what did not go away within the grace."""
    deadline_s = time.monotonic() + LEAK_GRACE_S
    while left := {name for name in _shared_files() - before if not _in_use_elsewhere(name)}:
        if time.monotonic() > deadline_s:
            break
        time.sleep(0.05)
    return left


@pytest.fixture(autouse=True)
def no_shared_memory_left():
    """Fail a test that leaves a file of Tailrace's in /dev/shm. The next test does not count it again."""
    before = _shared_files()
    yield
    left = _left_behind(before)
    assert not left, f"left behind in {SHARED_MEMORY}: {', '.join(sorted(left))}"


def _spark_work() -> Path:
    home = os.environ.get("SPARK_HOME") or Path(importlib.util.find_spec("pyspark").origin).parent
    return Path(home, "work").resolve()


def _applications(work: Path) -> set[Path]:
    return set(work.glob("app-*"))


def _has_a_process(folder: Path) -> bool:
    """Tell whether an executor still runs in this folder: then it belongs to another run on the same machine."""
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if folder in link.readlink().parents:
                return True
    return False


@pytest.fixture(scope="session", autouse=True)
def spark_work_tidied():
    """Remove the application folders that this run's Sparks wrote, and only those."""
    work = _spark_work()
    before = _applications(work)
    yield
    for folder in _applications(work) - before:
        if not _has_a_process(folder):
            shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):  # absent, or not empty
        work.rmdir()
