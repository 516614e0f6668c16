"""The cell of keyed state: one key at a time, None where there is nothing, whether changes are tracked or not."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.state.backend import ValueCodec
from tailrace.state.memory import MemoryBackend

STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["set", "assign", "clear", "get"]), st.integers()))


@pytest.mark.parametrize("tracked", [False, True])
@given(STEPS)
def test_a_cell_is_a_view_of_its_backend(tracked, steps):
    backend, model = MemoryBackend(ValueCodec(pickle.dumps, pickle.loads), len), {}
    if tracked:
        backend.track(0)
    cell = backend.cell()
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
        assert dict(backend.items()) == backend.table == model
        assert len(backend) == len(model)
