"""The innermost loops in C give what the same loops in Python give."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace import hot

native = pytest.mark.skipif(not hot.NATIVE, reason="the extension was not built")
U64 = st.integers(0, 2**64 - 1)


@st.composite
def filings(draw):
    boxes = draw(st.integers(1, 4))
    sizes = draw(st.lists(st.integers(0, 9), max_size=8))
    if draw(st.booleans()):
        sizes = [1] * len(sizes)
    values = list(range(sum(sizes)))
    dests = draw(st.lists(st.integers(0, boxes - 1), min_size=len(values), max_size=len(values)))
    lineages = draw(st.lists(U64, min_size=len(sizes), max_size=len(sizes)))
    plain = all(size == 1 for size in sizes) and draw(st.booleans())
    roots, incs = list(range(len(sizes))), [256] * len(sizes)
    tags = draw(st.lists(U64, min_size=boxes, max_size=boxes, unique=True))
    return values, dests, None if plain else sizes, roots, incs, lineages, boxes, tags, draw(st.integers(1, 5))


def filed(function, filing):
    values, dests, sizes, roots, incs, lineages, boxes, tags, piece_max = filing
    columns = [([], [], [], [], []) for _ in range(boxes)]
    xors = function(values, dests, sizes, roots, incs, lineages, columns, tags, piece_max)
    return xors, columns


@native
@given(filings())
def test_bundles_are_filed_alike(filing):
    assert filed(hot.file_bundles, filing) == filed(hot.file_bundles_py, filing)


@given(filings())
def test_every_value_is_filed_once_and_the_xors_are_of_what_was_filed(filing):
    values, dests, sizes, roots, _, lineages, boxes, _, piece_max = filing
    xors, columns = filed(hot.file_bundles, filing)
    total = dict.fromkeys(roots, 0)
    for dest in range(boxes):
        box_values, box_sizes, box_roots, _, box_lineages = columns[dest]
        assert box_values == [value for value, to in zip(values, dests, strict=True) if to == dest]
        assert sum(box_sizes) == len(box_values)
        assert all(1 <= size <= piece_max for size in box_sizes)
        for root, lineage in zip(box_roots, box_lineages, strict=True):
            total[root] ^= lineage
    assert xors == list(total.values())
    assert len(lineages) == len(xors)
    assert sizes is None or sum(sizes) == len(values)


@given(filings(), st.integers(1, 3))
def test_a_replay_dealt_to_other_tasks_goes_by_the_same_names(filing, turn):
    """Shuffle deals a replay out from another start; what comes of it must be known again by a guard further on."""
    values, dests, sizes, roots, incs, lineages, boxes, tags, piece_max = filing
    turned = [(dest + turn) % boxes for dest in dests]
    first = filed(hot.file_bundles, filing)
    again = filed(hot.file_bundles, (values, turned, sizes, roots, incs, lineages, boxes, tags, piece_max))
    assert again[0] == first[0]
    assert [again[1][(dest + turn) % boxes] for dest in range(boxes)] == first[1]


@native
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2))), st.integers(2, 4))
def test_values_are_filed_alike(pairs, boxes):
    values, dests = [value for value, _ in pairs], [dest % boxes for _, dest in pairs]
    found, wanted = [[] for _ in range(boxes)], [[] for _ in range(boxes)]
    hot.file_values(values, dests, found)
    hot.file_values_py(values, dests, wanted)
    assert found == wanted


@native
@given(st.lists(st.tuples(U64, st.integers(0, 1000)), max_size=20), st.data())
def test_roots_are_entered_and_settled_alike(entries, data):
    roots = list(range(len(entries)))
    xors, dues = [xor for xor, _ in entries], [due for _, due in entries]
    found, wanted = {}, {}
    given_outputs = object()
    assert hot.enter(found, roots, xors, dues, 2000, 256, given_outputs) == hot.enter_py(
        wanted, roots, xors, dues, 2000, 256, given_outputs
    )
    assert found == wanted
    acks = data.draw(st.lists(st.tuples(st.integers(0, 25), st.sampled_from([256, 257]), U64), max_size=20))
    acks += [(root, 256, wanted[root][hot.OPEN_XOR]) for root in list(wanted)[::2]]
    columns = [list(column) for column in zip(*acks, strict=True)] or [[], [], []]
    assert hot.settle(found, *columns, 3000) == hot.settle_py(wanted, *columns, 3000)
    assert found == wanted


@native
@given(st.lists(st.integers(-(2**62), 2**62)), st.dictionaries(st.integers(0, 50), st.integers(1, 9)))
def test_latencies_are_counted_alike(values, counts):
    found, wanted = copy.copy(counts), copy.copy(counts)
    hot.count_buckets(found, values)
    hot.count_buckets_py(wanted, values)
    assert found == wanted


@native
@pytest.mark.parametrize(
    "filing",
    [
        ([1, 2], [0], None, [0, 0], [0, 0], [1, 2], 1, [5], 4),  # a destination short
        ([1], [1], None, [0], [0], [1], 1, [5], 4),  # no such outbox
        ([1], [-1], None, [0], [0], [1], 1, [5], 4),
        ([1, 2], [0, 0], [1], [0], [0], [1], 1, [5], 4),  # sizes that do not cover the values
        ([1], [0], [1], [0], [0], [2**64], 1, [5], 4),  # a lineage over 64 bits
        ([1], [0], [1], [0], [0], [1], 1, [5], 0),  # no room in a piece
    ],
)
def test_columns_that_disagree_are_refused_and_do_not_crash(filing):
    with pytest.raises((ValueError, IndexError, OverflowError)):
        filed(hot.file_bundles, filing)
