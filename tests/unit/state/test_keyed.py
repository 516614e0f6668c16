"""The cell of keyed state: one key at a time, None where there is nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tailrace.state.keyed import Cell

STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["set", "assign", "clear", "get"]), st.integers()))


@given(STEPS)
def test_a_cell_is_a_view_of_the_dict(steps):
    states, model = {}, {}
    cell = Cell(states)
    for key, what, value in steps:
        at = cell.at(key)
        assert at.get() == at.value == model.get(key)
        if what == "set":
            at.set(value)
            model[key] = value
        elif what == "assign":
            at.value = value
            model[key] = value
        elif what == "clear":
            at.clear()
            model.pop(key, None)
        assert states == model
