"""Names: given ones are kept or refused, derived ones are made unique."""

from __future__ import annotations

import pytest

from tailrace.connect import sinks, sources
from tailrace.topology.contracts import Sink
from tailrace.topology.errors import DuplicateNameError, OperatorNameError
from tailrace.topology.graph import Topology


@pytest.fixture
def numbers():
    return Topology("flow").source(sources.items([1]))


def test_derived_names_get_a_counted_suffix(numbers):
    for _ in range(3):
        numbers.map(str)
    numbers.map(lambda v: v)
    numbers.filter(lambda v: v)
    assert list(numbers.topology.operators) == ["items", "str", "str-2", "str-3", "map", "filter"]


def test_a_derived_name_goes_round_given_ones(numbers):
    numbers.map(str, name="str-2")
    numbers.map(str, name="str")
    numbers.map(str)
    assert list(numbers.topology.operators)[-1] == "str-3"


@pytest.mark.parametrize("first", [{"name": "str"}, {}])
def test_a_given_name_that_is_taken_is_refused(numbers, first):
    numbers.map(str, **first)
    with pytest.raises(DuplicateNameError, match="'str' is already taken"):
        numbers.map(int, name="str")


def test_connectors_are_named_after_themselves(numbers):
    class MyStore(Sink):
        label = ""

        def write(self, values):
            pass

    numbers.sink(MyStore())
    numbers.sink(sinks.function(print))
    numbers.sink(sinks.function(lambda v: v))
    assert list(numbers.topology.operators)[1:] == ["my_store", "print", "function"]


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 201, 7])
def test_unusable_names_are_refused(numbers, name):
    with pytest.raises(OperatorNameError):
        numbers.map(str, name=name)
    with pytest.raises(OperatorNameError):
        Topology(name)
