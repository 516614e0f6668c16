"""Values arrive as exactly what they were, whatever way the codec chose for them."""

from __future__ import annotations

import datetime as dt
import enum
import threading
from collections import namedtuple
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.heads import batch_of

from tailrace.errors import ShareError
from tailrace.transport import codec

TEXT = st.text(st.characters(exclude_categories=()), max_size=8)  # lone surrogates too
PLAIN = st.one_of(
    TEXT, st.integers(-(2**70), 2**70), st.floats(), st.binary(max_size=8), st.booleans(), st.none(), st.integers(-5, 5)
)
VALUES = st.one_of(
    PLAIN,
    st.lists(PLAIN, max_size=3),
    st.tuples(PLAIN, PLAIN),
    st.tuples(TEXT, st.integers(-5, 5)),
    st.dictionaries(TEXT, PLAIN, max_size=3),
    st.sets(st.integers(), max_size=3),
)
U64 = st.integers(0, 2**64 - 1)


def exactly(value):
    """A form in which values are equal only if types are too, at every depth."""
    if isinstance(value, dict):
        return type(value), [(exactly(key), exactly(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [exactly(each) for each in value]
    if isinstance(value, set):
        return type(value), sorted(map(repr, value))
    return type(value), repr(value)


def carried(values, sizes=None, tracked=True):
    count = len(sizes) if sizes is not None else len(values)
    ids = (list(range(count)), [256] * count, list(range(count))) if tracked else ([], [], [])
    return codec.decode_batch(memoryview(codec.encode_batch(batch_of(values, sizes, *ids))))


@given(st.lists(VALUES, min_size=1, max_size=6))
def test_mixed_values_keep_their_types(values):
    assert exactly(carried(values).values) == exactly(values)


@given(st.one_of(*(st.lists(each, min_size=1, max_size=6) for each in (TEXT, st.integers(), st.floats(), st.binary()))))
def test_values_of_one_type_keep_it(values):
    assert exactly(carried(values).values) == exactly(values)


@given(st.lists(st.tuples(TEXT, st.one_of(st.integers(), st.booleans(), st.floats())), min_size=1, max_size=6))
def test_tuples_keep_the_types_of_their_parts(values):
    assert exactly(carried(values).values) == exactly(values)


@given(st.lists(st.tuples(st.integers(1, 3), U64, st.integers(0, 2**40), U64), min_size=1, max_size=6), st.booleans())
def test_the_columns_arrive_as_they_were(bundles, same_inc):
    sizes, roots, incs, lineages = map(list, zip(*bundles, strict=True))
    roots = [root >> 1 for root in roots]
    incs = [incs[0]] * len(incs) if same_inc else incs
    batch = batch_of([7] * sum(sizes), sizes, roots, incs, lineages)
    found = codec.decode_batch(memoryview(codec.encode_batch(batch)))
    assert (found.values, found.sizes, found.heads) == (batch.values, sizes, batch.heads)


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_untracked_batches(values):
    found = carried(values, tracked=False)
    assert (found.sizes, len(found.heads)) == (None, 0)
    assert exactly(found.values) == exactly(values)


def test_numbers_and_lengths_of_every_width():
    edges = [0, 31, 32, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**63 - 1]
    numbers = [sign * (edge + step) for edge in edges for step in (-1, 0, 1) for sign in (1, -1)]
    assert carried([*numbers, 2**64 - 1, -(2**63)]).values == [*numbers, 2**64 - 1, -(2**63)]
    for length in (0, 15, 16, 31, 32, 255, 256, 65535, 65536):
        texts = ["x" * length, "ä" * length]
        assert carried(texts).values == texts
        assert carried([b"x" * length]).values == [b"x" * length]
        assert carried([1] * max(1, length)).values == [1] * max(1, length)


def test_a_tuple_of_more_parts_than_a_signature_holds_goes_through_pickle():
    assert carried([(1,) * 300]).values == [(1,) * 300]


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class Name(str):
    __slots__ = ()


Point = namedtuple("Point", "x y")  # noqa: PYI024 - the untyped kind, on purpose


@dataclass(frozen=True)
class Order:
    item: str
    when: dt.date


@pytest.mark.parametrize(
    "value",
    [
        Colour.RED,
        Level.LOW,
        Name("n"),
        Point(1, 2),
        Order("tea", dt.date(2026, 1, 2)),
        (Level.LOW, "a"),
        (Name("n"), 1),
        (),
        ((1, 2), 3),
        bytearray(b"x"),
        frozenset({1}),
        1 + 2j,
        dt.datetime(2026, 1, 2, tzinfo=dt.timezone.utc),
    ],
)
def test_subclasses_and_rarer_types_are_not_flattened(value):
    (found,) = carried([value]).values
    assert type(found) is type(value)
    assert found == value
    if isinstance(value, tuple):
        assert [type(each) for each in found] == [type(each) for each in value]


def test_plain_values_do_not_go_through_pickle():
    for values in (["a"], [1], [1.5], [b"x"], [True], [("a", 1)], [("a", 1, 2.0, b"x", False)]):
        assert codec.encode_batch(batch_of(values, None, [1], [1], [1]))[0] != 0


def test_functions_and_local_classes_travel_by_value():
    class Local:
        pass

    (found,) = carried([lambda x: x + 1]).values
    assert found(1) == 2
    assert type(carried([Local()]).values[0]).__name__ == "Local"


def test_what_cannot_travel_is_named():
    with pytest.raises(ShareError, match="cannot travel between workers"):
        codec.encode_batch(batch_of([threading.Lock()], None, [1], [1], [1]))
