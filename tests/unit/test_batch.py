"""Batches: cutting and selecting keep every bundle whole and every column in step."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.heads import batch_of

from tailrace.batch import OFFSET_BITS, OFFSET_MAX, PARTITIONS_MAX, mix, root_id

U64 = st.integers(0, 2**64 - 1)


@st.composite
def batches(draw, *, tracked=True):
    if not tracked:
        return batch_of(draw(st.lists(st.integers(), max_size=30)), None, [], [], [])
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=12))
    if draw(st.booleans()):
        sizes = [1] * len(sizes)
    values = list(range(sum(sizes)))
    numbers = list(range(len(sizes)))
    plain = all(size == 1 for size in sizes) and draw(st.booleans())
    return batch_of(values, None if plain else sizes, numbers, [n + 100 for n in numbers], [n + 200 for n in numbers])


def bundles(batch):
    """List (values, root, inc, lineage) of each bundle."""
    sizes = batch.sizes if batch.sizes is not None else [1] * len(batch.values)
    left = iter(batch.values)
    found = [[next(left) for _ in range(size)] for size in sizes]
    assert next(left, None) is None
    return list(zip(found, batch.roots, batch.incs, batch.lineages, strict=True))


@given(batches(), st.integers(1, 40))
def test_split_cuts_at_a_bundles_end_and_loses_nothing(batch, values_max):
    whole = bundles(batch)
    first, rest = batch.split(values_max)
    assert bundles(first) + (bundles(rest) if rest is not None else []) == whole
    assert len(first) <= values_max or first.bundles == 1
    if rest is not None:
        assert len(rest) > 0
        assert len(first) + len(bundles(rest)[0][0]) > values_max, "it could have taken another bundle"


@given(batches(tracked=False), st.integers(1, 40))
def test_split_of_an_untracked_batch(batch, values_max):
    first, rest = batch.split(values_max)
    assert first.values + (rest.values if rest is not None else []) == batch.values
    assert len(first) <= values_max
    assert first.bundles == len(first.values)


@given(batches(), st.data())
def test_select_keeps_the_marked_bundles_in_order(batch, data):
    keep = data.draw(st.lists(st.booleans(), min_size=batch.bundles, max_size=batch.bundles))
    wanted = [bundle for bundle, kept in zip(bundles(batch), keep, strict=True) if kept]
    chosen = batch.select(keep)
    assert bundles(chosen) == wanted
    assert (chosen.sizes is None) == (batch.sizes is None)


@given(st.integers(1, PARTITIONS_MAX - 1), st.integers(0, OFFSET_MAX))
def test_a_root_id_holds_its_partition_and_its_offset_in_63_bits(partition, offset):
    root = root_id(partition, offset)
    assert (root >> OFFSET_BITS, root & OFFSET_MAX) == (partition, offset)
    assert root < 2**63


@given(U64, U64, U64)
def test_children_of_one_bundle_have_names_of_their_own(lineage, tag, other):
    assert 0 <= mix(lineage, tag) < 2**64
    assert (mix(lineage, tag) == mix(lineage, other)) == (tag == other)


@given(batches(), batches())
def test_appending_keeps_the_bundles_of_both_in_order(first, second):
    wanted = bundles(first) + bundles(second)
    first.append(second)
    assert bundles(first) == wanted
