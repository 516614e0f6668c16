"""Policies switched back and forth in running processes, one of which is made slow: counts stay exact."""

from __future__ import annotations

import itertools

import pytest
from tests.queries import PATIENT, completed, ended, ending, until

import tailrace as tr
from tailrace import testing
from tailrace.coordinator.query import Query
from tailrace.testing import chaos

pytestmark = pytest.mark.chaos
COUNT = 4500
CHOICES = [
    ("shortest_delay", "per_task", "fixed:30s"),
    ("even", "shared", "fixed:30s"),
    ("even", "per_task", "adaptive"),
    ("shortest_delay", "shared", "adaptive"),
]


def test_counts_are_exact_while_policies_are_switched_in_running_processes():
    with chaos.Knobs() as knobs:
        flow, out = tr.Topology("switched"), tr.sinks.collect()
        numbers = flow.source(tr.sources.rate(1500, count=COUNT, partitions=2), tasks=2)

        def spread(value):
            knobs.wait(0.0005)
            return [value % 97, value % 89, value % 7]

        keys = numbers.shuffle().flat_map(spread, tasks=6, blocking=True).shuffle().map(int, tasks=4)
        keys.key_by(int).count(tasks=2).shuffle().sink(out, tasks=2)
        settings = tr.Settings(progress_s=0.1, haste=10.0, **PATIENT)
        policy = tr.Policy.auto(chaining="off")
        with ending(Query(flow, testing.ProcessHost(3), policy, settings).start()) as query:
            knobs.slow(1, 4.0)
            for times, choice in zip(range(20), itertools.cycle(CHOICES), strict=False):
                reached = COUNT * times // 25
                until(lambda reached=reached: completed(query) > reached, "progress", query)
                query.switch(**dict(zip(("routing", "inbox", "replay"), choice, strict=True)))
            ended(query)
    wanted = {}
    for value in range(COUNT):
        for key in (value % 97, value % 89, value % 7):
            wanted[key] = wanted.get(key, 0) + 1
    assert sorted(out.values) == sorted((key, n + 1) for key, total in wanted.items() for n in range(total))
