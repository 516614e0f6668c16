"""Every bench is found by its name, in the module that it is made in."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from tailrace_bench.bench import Bench, BenchOutcome, BenchRequest, Timed
from tailrace_bench.errors import UnknownBenchError
from tailrace_bench.registry import NAMES, find


@pytest.mark.parametrize("name", NAMES)
def test_a_bench_has_the_name_it_is_found_by(name):
    bench = find(name)
    assert isinstance(bench, Bench)
    assert bench.name == name
    assert len(set(bench.cases)) == len(bench.cases)


@pytest.mark.parametrize("name", [name for name in NAMES if find(name).cases])
def test_an_unknown_case_names_the_nearest_before_anything_starts(name):
    bench = find(name)
    with pytest.raises(UnknownBenchError, match="has no case") as error:
        bench.run(BenchRequest(Console(file=io.StringIO()), only=bench.cases[0] + "x"))
    assert bench.cases[0] in error.value.hint


def test_a_bench_without_cases_takes_what_it_is_asked():
    asked = []

    def measure(request):
        asked.append(request)
        return BenchOutcome([])

    request = BenchRequest(Console(file=io.StringIO()), only="anything", plots=Path("plots"))
    Bench("any", measure).run(request)
    assert asked == [request]


@pytest.mark.parametrize(("quick", "times"), [(True, 1.5), (False, 60.0)])
def test_a_timed_bench_measures_by_its_times_and_shows_what_is_left(quick, times):
    def rows(found, pace, only):
        pace.step("measuring", found)
        return [{"case": only, "value": found}]

    out = io.StringIO()
    timed = Timed(1.5, 60.0, lambda found, _only: 2 * found, rows, ["a note"])
    outcome = Bench("any", timed, ("one",)).run(BenchRequest(Console(file=out), quick=quick, only="one"))
    assert outcome == BenchOutcome([{"case": "one", "value": times}], ["a note"], {})
    assert ("2 min 00 s left" if not quick else "3 s left") in out.getvalue()
