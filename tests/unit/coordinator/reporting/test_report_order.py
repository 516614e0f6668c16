"""Reports of several workers in any order, late ones and repeated ones too: the coordinator arrives at the same."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.coordinator.test_brain import Office

from tailrace import protocol
from tailrace.reports import (
    REST,
    EdgeReport,
    KeyGroupReport,
    LatencyReport,
    LinkReport,
    ProcessReport,
    TaskReport,
    WorkerReport,
)

WORKERS, REPORTS = 3, 4


def latency(rng):
    return LatencyReport(
        {rng.randrange(40): rng.randint(1, 9) for _ in range(3)}, rng.randrange(999), rng.randrange(999)
    )


def grown(row, step):
    """A later row of the same task."""
    return msgspec.structs.replace(
        row,
        tuples_in=row.tuples_in + step,
        tuples_out=row.tuples_out + step // 2,
        busy_ns=row.busy_ns + 10 * step,
        read=row.read + step * (row.stage == 0),
        inbox=step,
    )


def history(placement, rng):
    """What each worker reports one after the other; tasks grow, and now and then go to another worker."""
    places = {(stage, task): slot for stage, row in enumerate(placement) for task, slot in enumerate(row)}
    rows = {key: TaskReport(*key, "inline") for key in places}
    sent = []
    for sequence in range(1, REPORTS + 1):
        for key in places:
            if rng.random() < 0.2:
                places[key] = rng.randrange(WORKERS)
            rows[key] = grown(rows[key], rng.randint(1, 999))
        for slot in range(WORKERS):
            tasks = tuple(
                msgspec.structs.replace(row, latency=latency(rng), complete=latency(rng))
                for key, row in rows.items()
                if places[key] == slot
            )
            report = WorkerReport(
                sequence,
                tasks,
                (EdgeReport(0, slot % 2, slot, 10 * sequence, 100 * sequence), EdgeReport(0, REST, REST, sequence, 1)),
                (LinkReport(0, 1, 7 * sequence, 70 * sequence),),
                (KeyGroupReport(0, rng.randrange(4), rng.randrange(999)),),
                1000 * sequence,
                10 * sequence,
                ProcessReport(rng.random(), sequence, 0),
            )
            sent.append((slot, protocol.Report(report, {1: rng.randrange(999)})))
    return sent


def told(reports):
    """What the coordinator knows after these reports."""
    office = Office(WORKERS)
    connections = office.running()
    for slot, report in reports:
        office.say(connections[slot], report)
    brain = office.brain
    office.tick(3.0)
    progress = {name: value for name, value in brain.book.recent[-1].items() if name != "timestamp"}
    return (
        progress,
        brain.key_loads.shares(1),
        brain.measured.snapshot(brain.placement, brain.hosts),
        brain.marks,
        brain.book.latency_total.counts,
        [member.report for member in brain.members.values()],
    )


def placement():
    office = Office(WORKERS)
    office.running()
    return office.brain.placement


@settings(deadline=None)
@given(st.randoms(use_true_random=True))
def test_the_order_in_which_reports_come_makes_no_difference(rng):
    reports = history(placement(), rng)
    expected = told(reports)
    assert expected[0]["stages"][0]["read"] > 0
    shuffled = rng.sample(reports, len(reports))
    assert told(shuffled) == expected
    assert told([*shuffled, *rng.choices(reports, k=5)]) == expected  # those that come twice count once
