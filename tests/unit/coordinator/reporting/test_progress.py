"""What progress counts: dead letters as such, beside what was merely skipped."""

from __future__ import annotations

import tailrace as tr
from tailrace import testing
from tailrace.metrics.prometheus import render


def odd_only(value):
    if value % 2 == 0:
        raise ValueError(value)
    return value


def test_dead_letters_are_counted_apart_from_what_is_skipped():
    flow = tr.Topology("letters")
    numbers = flow.source(tr.sources.items(range(10)))
    kept = numbers.map(odd_only, name="kept", on_error="dead_letter", tasks=2)
    kept.dead_letters().sink(tr.sinks.discard(), name="letters")
    kept.map(lambda value: 1 // (value - 3), name="left", on_error="skip").sink(tr.sinks.discard(), name="out")
    result = testing.run(flow, workers=2)
    last = result.progress[-1]
    assert (last["deadLetters"], last["skipped"]) == (5, 1)
    by_operator = {name: row for row in last["stages"] for name in row["operators"]}
    assert by_operator["kept"]["deadLetters"] == 5
    shown = render("letters", last)
    assert 'tailrace_dead_letters_total{query="letters"} 5' in shown
    assert 'tailrace_skipped_total{query="letters"} 1' in shown
    assert result.counters["deadLetters"] == 5
