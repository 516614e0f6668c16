"""How long a recovery took, from what a sink wrote down."""

from __future__ import annotations

import pytest

from tailrace_bench.errors import ArmError
from tailrace_bench.state.recovery import recoveries_ms

MS = 1_000_000


def came(late):
    """A result every 10 ms for 10 s, each 1 ms late but for those due in some spans, which come at their end."""
    found = {}
    for due_ms in range(0, 10_000, 10):
        ends = [end for begin, end in late if begin <= due_ms < end]
        found[due_ms * MS] = (max(ends) if ends else due_ms + 1) * MS
    return found


def test_it_lasts_until_the_last_result_that_was_late():
    found = recoveries_ms(came([(3000, 3700), (6000, 7200)]), [3000 * MS, 6000 * MS])
    assert found == [pytest.approx(700), pytest.approx(1200)]


def test_a_kill_that_nobody_notices_takes_no_time():
    assert recoveries_ms(came([]), [3000 * MS]) == [0.0]


def test_one_that_is_not_over_at_the_next_kill_has_lasted_until_then():
    assert recoveries_ms(came([(3000, 3900)]), [3000 * MS, 3500 * MS]) == [pytest.approx(500), pytest.approx(400)]


def test_without_results_before_a_kill_there_is_nothing_to_compare_with():
    with pytest.raises(ArmError, match="No result"):
        recoveries_ms(came([]), [0])


def test_a_stall_long_afterwards_has_another_cause():
    assert recoveries_ms(came([(3000, 3700), (6000, 6100)]), [3000 * MS]) == [pytest.approx(700)]
