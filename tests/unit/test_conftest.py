"""The watch over shared memory fails the test that leaks, and only that one."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CONFTEST = Path(__file__).parents[1] / "conftest.py"


@pytest.fixture
def suite(pytester, tmp_path, monkeypatch):
    """Give a suite of its own whose shared memory is a folder of this test's."""
    monkeypatch.setenv("TAILRACE_TEST_RUN", "taken over by the inner suite, given back afterwards")
    shared = tmp_path / "shm"
    shared.mkdir()
    source = CONFTEST.read_text(encoding="utf-8")
    source = source.replace('Path("/dev/shm")', f"Path({str(shared)!r})").replace("GRACE_S = 5.0", "GRACE_S = 0.0")
    source = source.replace("Path(__file__).parents[1]", f"Path({str(CONFTEST.parents[1])!r})")
    pytester.makeconftest(source)
    return pytester, shared


def test_a_file_left_behind_fails_its_test_only(suite):
    pytester, shared = suite
    pytester.makepyfile(f"""
        from pathlib import Path
        SHARED = Path({str(shared)!r})
        def test_leaks(): (SHARED / "tailrace-ring").touch()
        def test_clean(): pass
        def test_tidies():
            (SHARED / "tailrace-other").touch()
            (SHARED / "tailrace-other").unlink()
        def test_of_another_program(): (SHARED / "psm_1").touch()
    """)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=4, errors=1)
    result.stdout.fnmatch_lines(["*left behind in*tailrace-ring*"])


def test_what_was_there_before_is_left_alone(suite):
    pytester, shared = suite
    (shared / "tailrace-of-someone-else").touch()
    pytester.makepyfile("def test_clean(): pass")
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
    assert (shared / "tailrace-of-someone-else").exists()


MAPS = """
import mmap, sys
with open(sys.argv[1], "w+b") as file:
    file.truncate(4096)
    held = mmap.mmap(file.fileno(), 4096)
print("ready", flush=True)
sys.stdin.read()
"""
LISTENS = """
import os, socket, sys
os.mkdir(sys.argv[1])
held = socket.socket(socket.AF_UNIX)
held.bind(sys.argv[1] + "/inbox.sock")
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
@pytest.mark.parametrize("holder", [MAPS, LISTENS])
def test_what_another_run_uses_is_not_counted(suite, holder):
    pytester, shared = suite
    pytester.makepyfile(f"""
        import subprocess, sys
        children = []
        def hold(name, **how):
            command = [sys.executable, "-c", {holder!r}, {str(shared)!r} + "/" + name]
            child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, **how
            )
            children.append(child)
            assert child.stdout.readline().strip() == b"ready"
        def test_held_by_another_run(): hold("tailrace-theirs", env={{}})
        def test_held_by_this_run(): hold("tailrace-ours")
        def test_release():
            for child in children: child.communicate()
    """)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*left behind in*tailrace-ours*"])
    result.stdout.no_fnmatch_line("*left behind in*tailrace-theirs*")
