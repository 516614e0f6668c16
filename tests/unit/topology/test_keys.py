"""Fields as keys: of whatever has fields, with a named error where one is missing."""

from __future__ import annotations

import collections
import dataclasses
import pickle
from typing import NamedTuple

import msgspec
import pytest
from pyspark.sql import Row

import tailrace as tr
from tailrace import testing
from tailrace.program.errors import OperatorError
from tailrace.topology.errors import GroupingError, MissingFieldError
from tailrace.topology.keys import Field, keys_of


class Click(msgspec.Struct):
    user: str
    count: int = 0


@dataclasses.dataclass
class View:
    user: str


class Named(NamedTuple):
    user: str
    count: int  # type: ignore[assignment]


class Plain:
    def __init__(self, user):
        self.user = user


@pytest.mark.parametrize(
    "value",
    [{"user": "ada"}, collections.OrderedDict(user="ada"), Click("ada"), View("ada"), Named("ada", 1), Plain("ada"),
     Row(user="ada", n=1)],
)  # fmt: skip
def test_a_field_of_anything_that_has_fields(value):
    field = Field("user")
    assert field(value) == "ada"
    assert pickle.loads(pickle.dumps(field))(value) == "ada"
    assert keys_of(field, [value, {"user": "bob"}]) == ["ada", "bob"]
    assert keys_of(field, [{"user": "bob"}, value]) == ["bob", "ada"]


@pytest.mark.parametrize(
    "value", [{"users": 1}, {}, Click("ada"), Row(user="ada"), (1, 2), "text", 5, None, [1], Plain("ada")]
)
def test_a_missing_field_is_named_with_what_is_there(value):
    with pytest.raises(MissingFieldError, match=f"'keys' was expected, found a {type(value).__name__}"):
        keys_of(Field("keys"), [value])


def test_methods_are_no_fields_but_fields_that_are_called_like_methods_are():
    assert Field("count")(Named("ada", 7)) == Field("count")(Click("ada", 7)) == 7
    assert Field("count")(Row(count=7)) == Field("items")({"items": 7}) == 7
    for value in ((1, 2), [1], "text"):
        with pytest.raises(MissingFieldError):
            Field("count")(value)


def test_key_by_field_counts_and_is_drawn_with_the_fields_name():
    flow, out = tr.Topology("fields"), tr.sinks.collect()
    values = [{"user": "ada"}, {"user": "bob"}, Click("ada")]
    flow.source(tr.sources.items(values)).key_by("user").count(tasks=2, emit="final").sink(out)
    assert "fields by user" in str(flow)
    testing.run(flow, workers=2)
    assert sorted(out.values) == [("ada", 2), ("bob", 1)]


def test_a_value_without_the_field_ends_the_query_with_the_operators_name():
    flow, out = tr.Topology("fields"), tr.sinks.collect()
    flow.source(tr.sources.items([{"user": "ada"}, {"usr": "bob"}])).key_by("user").count(tasks=2).sink(out)
    with pytest.raises(OperatorError, match=r"key_by of operator 'count'.*'usr': 'bob'.*a field 'user' was expected"):
        testing.run(flow, workers=2)


@pytest.mark.parametrize("given", ["", None, 5])
def test_what_is_no_key_is_refused(given):
    flow = tr.Topology("fields")
    with pytest.raises(GroupingError, match="a field's name"):
        flow.source(tr.sources.items([1])).key_by(given)
