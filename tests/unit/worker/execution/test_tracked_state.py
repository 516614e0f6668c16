"""Keyed operators whose changes are tracked: as without, and back to any cut, whatever fails on the way."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.worker.rig import Captured

from tailrace.topology.operators import Aggregation, KeyedOperator


def key_of(value):
    return value[0]


def joined(held, value):
    """Change what is held in place, and fail on odd days: what was changed before that stays changed."""
    held[1].append(value[1])
    if value[1] == 7:
        raise ValueError("seven")
    return held


class Lists(KeyedOperator):
    """Keeps a list per key, and changes it in place, forgets it, or only looks at it."""

    def process(self, key, value, state):
        held = state.get()
        if value[1] == 7:
            raise ValueError("seven")
        if value[1] == 8:
            state.clear()
        elif held is None:
            state.value = [value[1]]
        elif value[1] % 2:
            held.append(value[1])
        return [(key, list(held or ()))]


#: A verb, what it is made with, and how values become what it is fed.
CASES = {
    "count": (None, {}, lambda key, _: key),
    "reduce": (joined, {"key": key_of}, lambda key, number: (key, [number]) if number > 9 else (key, number)),
    "aggregate": (
        Aggregation(lambda: ["sum", []], joined, lambda held: len(held[1])),
        {"key": key_of},
        lambda key, number: (key, number),
    ),
    "keyed_process": (Lists, {"key": key_of}, lambda key, number: (key, number)),
}
KEYS = st.one_of(st.integers(0, 4), st.just([]), st.sampled_from(["a", ("b", 1)]))
BATCHES = st.lists(
    st.one_of(
        st.lists(st.tuples(KEYS, st.integers(0, 12)), min_size=1, max_size=6), st.sampled_from(["cut", "back", "write"])
    ),
    max_size=25,
)


@pytest.mark.parametrize("verb", CASES)
@given(batches=BATCHES)
def test_a_tracked_operator_gives_the_same_and_goes_back_to_any_cut(verb, batches):
    fn, options, value_of = CASES[verb]
    plain, tracked = (Captured(verb, fn, on_error="skip", **options) for _ in range(2))
    backend, table = tracked.step.state, plain.step.state.table
    backend.track(0)
    cuts, epoch = {0: {}}, 0
    for batch in batches:
        if batch == "cut":
            epoch += 1
            backend.cut(epoch)
            cuts[epoch] = copy.deepcopy(table)
        elif batch == "back":
            backend.rollback(epoch)
            table.clear()
            table.update(copy.deepcopy(cuts[epoch]))
        elif batch == "write":
            found = backend.delta(None, epoch)
            assert {*found.values, *found.encoded} == {*cuts[epoch]}
        else:
            values = [[value_of(key, number)] for key, number in batch]
            assert tracked.feed(copy.deepcopy(values)) == plain.feed(values)
        assert backend.table == table
        assert tracked.step.skipped == plain.step.skipped
