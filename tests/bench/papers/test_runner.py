"""Jobs in processes of their own: taken over after an interruption, run again for other code, ended when they hang."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import tailrace
import tailrace_bench
from tailrace_bench.measurement import machine
from tailrace_bench.papers import runner
from tailrace_bench.papers.jobs import Job
from tailrace_bench.papers.runner import polite_end, run_all, taken_over
from tailrace_bench.papers.store import Store, source_digest


@dataclass(frozen=True)
class Scripted(Job):
    """A job whose process runs a line of Python; it leaves a mark each time it runs."""

    script: str = ""
    marks: str = ""

    def missing(self):
        return None

    def command(self, file, *, quick):
        body = f"open({self.marks!r}, 'a').write('x'); file = {str(file)!r}; import json, sys, time; {self.script}"
        return [sys.executable, "-c", body]


WRITES = "open(file, 'w').write(json.dumps({'rows': [], 'versions': {'tailrace': '1'}}))"


@pytest.fixture(autouse=True)
def _no_look_at_the_machine(monkeypatch):
    """A look takes a second."""
    monkeypatch.setattr(runner.machine, "sample_load", lambda: machine.OtherLoad(2, 0.0, 0.0))


@pytest.fixture
def marks(tmp_path):
    return tmp_path / "marks"


def scripted(marks, script, name="slots", kind="simulate"):
    return Scripted(kind, name, script=script, marks=str(marks))


def run(jobs, folder, digest="one", **options):
    return run_all(jobs, Store(folder, digest, quick=True), lambda _: 1.0, quick=True, **options)


def test_what_an_interrupted_run_found_is_taken_over(tmp_path, marks):
    job = scripted(marks, WRITES)
    assert not run([job], tmp_path)[job].taken_over
    again = run([job], tmp_path)[job]
    assert again.taken_over
    assert again.result["document"]["rows"] == []
    assert marks.read_text() == "x"


def test_other_code_or_a_wish_for_fresh_figures_runs_it_again(tmp_path, marks):
    job = scripted(marks, WRITES)
    run([job], tmp_path)
    run([job], tmp_path, digest="two")
    run([job], tmp_path, digest="two", fresh=True)
    assert marks.read_text() == "xxx"
    assert taken_over([job], Store(tmp_path, "three", quick=True))[job].result is not None


def test_raw_results_say_what_they_were_made_with(tmp_path, marks):
    job = scripted(marks, WRITES)
    run([job], tmp_path)
    kept = json.loads((tmp_path / "quick" / "simulate-slots.json").read_text())
    assert {"run", "quick", "digest", "took_s", "commit", "machine", "versions", "document"} <= kept.keys()
    assert kept["machine"]["cores"] >= 1


def test_a_failure_is_a_reason_and_the_others_go_on(tmp_path, marks):
    bad, good = scripted(marks, "sys.exit('no luck today')", "hone"), scripted(marks, WRITES)
    found = run([bad, good], tmp_path)
    assert found[bad].result is None
    assert "no luck today" in found[bad].reason
    assert found[good].result is not None


def test_what_fails_once_is_tried_again(tmp_path, marks):
    job = scripted(marks, f"marked = len(open({str(marks)!r}).read()); marked > 1 or sys.exit('not yet'); {WRITES}")
    assert run([job], tmp_path)[job].result is not None
    assert marks.read_text() == "xx"


def test_simulations_run_beside_each_other(tmp_path, marks, monkeypatch):
    monkeypatch.setattr(runner.machine, "cores", lambda: 2)
    # Each ends only when the other has begun too.
    both = f"[time.sleep(0.02) for _ in range(2000) if len(open({str(marks)!r}).read()) < 2]; {WRITES}"
    jobs = [scripted(marks, both, name) for name in ("slots", "hone")]
    found = run(jobs, tmp_path)
    assert list(found) == jobs
    assert all(outcome.result is not None for outcome in found.values())


def test_benches_run_alone_and_before_the_simulations(tmp_path, marks, monkeypatch):
    monkeypatch.setattr(runner.machine, "cores", lambda: 2)
    log = tmp_path / "log"

    def noting(name, kind):
        note = f"open({str(log)!r}, 'a').write('{name} ')"
        return scripted(marks, f"{note}; time.sleep(0.3); {note}; {WRITES}", name, kind)

    run([noting("slots", "simulate"), noting("ring", "bench"), noting("hone", "bench")], tmp_path)
    assert log.read_text().split() == ["ring", "ring", "hone", "hone", "slots", "slots"]


def test_a_bench_that_misses_a_bar_of_its_own_has_figures_all_the_same(tmp_path, marks):
    job = scripted(marks, f"{WRITES}; sys.stdout.flush(); sys.exit(1)")
    assert run([job], tmp_path)[job].result is not None


def test_a_job_that_hangs_is_ended(tmp_path, marks, monkeypatch):
    monkeypatch.setattr(runner, "LIMIT_MIN_S", 0.5)
    monkeypatch.setattr(runner, "LIMIT_FACTOR", 0.5)
    job = scripted(marks, "time.sleep(600)")
    assert "was ended" in run([job], tmp_path)[job].reason


def test_a_polite_end_ends_the_job_at_hand_too(tmp_path, marks):
    pids = tmp_path / "pids"
    job = scripted(marks, f"import os; open({str(pids)!r}, 'w').write(str(os.getpid())); time.sleep(600)")

    def terminate(*_):
        if pids.exists() and pids.read_text():
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(SystemExit) as left, polite_end():
        run([job], tmp_path, tell=terminate)
    assert left.value.code == runner.EXIT_TERMINATED
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids.read_text()), 0)


def test_a_bench_that_is_not_there_is_not_run(tmp_path):
    job = Job("bench", "perpetuum")
    assert "there is no `tailrace bench perpetuum`" in run([job], tmp_path)[job].reason
    assert not (tmp_path / "quick").exists()


def test_the_digest_follows_the_engine_and_not_the_claims(tmp_path):
    (tmp_path / "papers").mkdir()
    (tmp_path / "engine.py").write_text("a = 1\n")
    (tmp_path / "papers" / "claims.py").write_text("b = 1\n")
    before = source_digest(tmp_path)
    (tmp_path / "papers" / "claims.py").write_text("b = 2\n")
    assert source_digest(tmp_path) == before
    (tmp_path / "engine.py").write_text("a = 2\n")
    assert source_digest(tmp_path) != before


def test_the_digest_covers_the_runtime_and_the_benches():
    runtime, benches = (Path(package.__file__).parent for package in (tailrace, tailrace_bench))
    assert source_digest() == source_digest(runtime, benches)
    assert len({source_digest(), source_digest(runtime), source_digest(benches)}) == 3
