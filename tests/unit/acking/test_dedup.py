"""The guard against a plain model of it: every bundle once, whatever comes again, and memory that is given back."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.heads import heads_of

from tailrace.acking import dedup
from tailrace.acking.dedup import FIRST_INCARNATION, Deduplicator
from tailrace.batch import OFFSET_BITS, Batch, mix, numbers, root_id
from tailrace.state import snapshot
from tailrace.state.snapshot import DeduplicatorSnapshot

GENERATION = 6


@pytest.fixture(autouse=True)
def _small_generations(monkeypatch):
    monkeypatch.setattr(dedup, "GENERATION_BUNDLES", GENERATION)


def lineage_of(root, child=0):
    return mix(mix(root, 77), child)


def batch_of(bundles):
    """Make a batch of (root, incarnation, child)."""
    heads = heads_of(
        [root for root, _, _ in bundles],
        [inc for _, inc, _ in bundles],
        [lineage_of(root, child) for root, _, child in bundles],
    )
    return Batch(list(range(len(bundles))), None, heads)


def admitted(deduplicator, bundles):
    batch = batch_of(bundles)
    keep = deduplicator.admit(batch)
    return [True] * len(bundles) if keep is None else keep


#: What can happen: bundles of open roots arrive (first or later incarnations, of two partitions), or a mark moves on.
ARRIVAL = st.tuples(st.integers(1, 2), st.integers(0, 3), st.integers(0, 2), st.integers(0, 1))
STEPS = st.lists(
    st.one_of(st.lists(ARRIVAL, min_size=1, max_size=6), st.tuples(st.integers(1, 2), st.integers(1, 3))), max_size=40
)


@given(STEPS)
def test_each_bundle_passes_once_and_nothing_below_a_mark_passes(steps):
    """The model remembers everything for ever. First incarnations come once, as a source sends them once."""
    deduplicator, seen, sent_first = Deduplicator(), set(), set()
    marks = {1: 0, 2: 0}
    for step in steps:
        if isinstance(step, tuple):
            partition, by = step
            marks[partition] += by
            deduplicator.low_water(partition, marks[partition])
            continue
        bundles = []
        for partition, ahead, replay, child in step:
            root = root_id(partition, max(0, marks[partition] - 1) + ahead)
            if replay == 0 and (root, child) in sent_first:
                replay = 1  # noqa: PLW2901 - a source sends a first incarnation once
            sent_first.add((root, child)) if replay == 0 else None
            bundles.append((root, FIRST_INCARNATION + replay, child))
        wanted = []
        for root, _, child in bundles:
            partition, offset = root >> OFFSET_BITS, root & ((1 << OFFSET_BITS) - 1)
            fresh = offset >= marks[partition] and (root, child) not in seen
            wanted.append(fresh)
            if fresh:
                seen.add((root, child))
        dropped = deduplicator.dropped
        assert admitted(deduplicator, bundles) == wanted
        assert deduplicator.dropped - dropped == wanted.count(False)


def test_a_late_first_incarnation_is_known_after_its_replay_passed_in_an_older_generation():
    deduplicator = Deduplicator()
    late = root_id(1, 5)
    assert admitted(deduplicator, [(late, FIRST_INCARNATION + 1, 0)]) == [True]
    for offset in range(GENERATION - 1):
        admitted(deduplicator, [(root_id(1, 100 + offset), FIRST_INCARNATION, 0)])
    # A newer generation, with a replay in it too, is forgotten before the older one.
    admitted(deduplicator, [(root_id(2, 0), FIRST_INCARNATION + 1, 0)])
    deduplicator.low_water(2, 1)
    assert admitted(deduplicator, [(late, FIRST_INCARNATION, 0)]) == [False]


def test_generations_are_forgotten_when_all_their_roots_are_complete():
    deduplicator = Deduplicator()
    for offset in range(10 * GENERATION):
        admitted(deduplicator, [(root_id(1, offset), FIRST_INCARNATION, 0)])
    assert len(deduplicator) == 10 * GENERATION
    deduplicator.low_water(1, 5 * GENERATION)
    assert len(deduplicator) == 5 * GENERATION
    deduplicator.low_water(1, 10 * GENERATION)
    assert len(deduplicator) == 0


def test_a_mark_never_goes_back():
    deduplicator = Deduplicator()
    deduplicator.low_water(1, 10)
    deduplicator.low_water(1, 3)
    assert admitted(deduplicator, [(root_id(1, 5), FIRST_INCARNATION, 0)]) == [False]


def test_a_partition_that_lags_holds_back_only_its_own_generations():
    deduplicator = Deduplicator()
    admitted(deduplicator, [(root_id(2, 0), FIRST_INCARNATION, 0)])
    for offset in range(5 * GENERATION):
        admitted(deduplicator, [(root_id(1, offset), FIRST_INCARNATION, 0)])
    deduplicator.low_water(1, 5 * GENERATION)
    assert len(deduplicator) <= GENERATION


def test_what_hangs_on_no_root_holds_nothing_back():
    deduplicator = Deduplicator()
    for number in range(3 * GENERATION):
        assert deduplicator.admit(Batch([number], None, heads_of([0], [0], [lineage_of(0, number)]))) is None
    deduplicator.low_water(1, 1)
    assert len(deduplicator) == 0


def test_outputs_are_recalled_as_long_as_their_bundle_is_known():
    deduplicator = Deduplicator()
    root = root_id(1, 0)
    admitted(deduplicator, [(root, FIRST_INCARNATION, 0)])
    deduplicator.remember(batch_of([(root, FIRST_INCARNATION, 0)]), "outputs")
    assert deduplicator.recall(lineage_of(root)) == "outputs"
    assert deduplicator.recall(lineage_of(root, 1)) is None
    deduplicator.low_water(1, 1)
    assert deduplicator.recall(lineage_of(root)) is None


def test_outputs_told_late_stay_as_long_as_their_bundles():
    """A slow operator finishes after newer bundles have begun, and ended, a generation of their own."""
    deduplicator = Deduplicator()
    slow = root_id(1, 50)
    admitted(deduplicator, [(slow, FIRST_INCARNATION, 0)])
    for number in range(GENERATION - 1):
        admitted(deduplicator, [(root_id(1, 60 + number), FIRST_INCARNATION, 0)])
    admitted(deduplicator, [(root_id(2, 0), FIRST_INCARNATION, 0)])
    deduplicator.remember(batch_of([(slow, FIRST_INCARNATION, 0)]), "outputs")
    deduplicator.low_water(2, 1)
    assert deduplicator.recall(lineage_of(slow)) == "outputs"


def test_what_is_kept_covers_a_few_marks_however_little_comes(monkeypatch):
    """All of it travels when the task moves, and a slow stream takes for ever to fill a generation."""
    monkeypatch.setattr(dedup, "GENERATION_BUNDLES", 16_384)
    deduplicator = Deduplicator()
    for offset in range(100):
        bundle = (root_id(1, offset), FIRST_INCARNATION, 0)
        admitted(deduplicator, [bundle])
        deduplicator.remember(batch_of([bundle]), "outputs")
        deduplicator.low_water(1, offset)
    assert len(deduplicator) == 1
    assert [deduplicator.recall(lineage_of(root_id(1, offset))) for offset in (98, 99)] == [None, "outputs"]


def test_marks_begin_so_many_generations_behind_a_root_that_stays_open(monkeypatch):
    monkeypatch.setattr(dedup, "GENERATION_BUNDLES", 16_384)
    deduplicator = Deduplicator()
    for offset in range(10 * dedup.GENERATIONS_BY_MARKS_MAX):
        admitted(deduplicator, [(root_id(part, offset), FIRST_INCARNATION, 0) for part in (1, 2)])
        deduplicator.low_water(2, offset + 1)
    assert len(deduplicator._generations) == dedup.GENERATIONS_BY_MARKS_MAX
    deduplicator.low_water(1, 10 * dedup.GENERATIONS_BY_MARKS_MAX)
    assert len(deduplicator) == 0


def test_a_guard_that_takes_another_ones_keys_over_knows_what_that_one_let_through():
    one, other = Deduplicator(), Deduplicator()
    before = [(root_id(1, offset), FIRST_INCARNATION, 0) for offset in range(2 * GENERATION)]
    assert all(admitted(one, before[:GENERATION]))
    assert all(admitted(one, before[GENERATION:]))
    one.remember(batch_of(before[-1:]), "given")
    assert all(admitted(other, [(root_id(1, 3), FIRST_INCARNATION, 9)]))
    one.low_water(1, 2)
    other.absorb(one)
    again = [(root, FIRST_INCARNATION + 1, child) for root, _, child in before]
    assert not any(admitted(other, again))
    assert other.recall(lineage_of(root_id(1, 2 * GENERATION - 1))) == "given"
    assert admitted(other, [(root_id(1, 1), FIRST_INCARNATION, 4)]) == [False]
    assert admitted(other, [(root_id(1, 90), FIRST_INCARNATION, 0)]) == [True]
    assert other.newest() == {1: 91}
    other.low_water(1, 91)
    assert len(other) == 0


def test_what_a_lost_source_had_sent_is_left_to_its_successor():
    deduplicator = Deduplicator()
    deduplicator.floors = {1: (10, 2 * FIRST_INCARNATION)}
    old, new = FIRST_INCARNATION, 2 * FIRST_INCARNATION
    rows = [(root_id(1, 9), old, 0), (root_id(1, 10), old, 0), (root_id(2, 10), old, 0)]
    assert admitted(deduplicator, rows) == [True, False, True]
    assert admitted(deduplicator, [(root_id(1, 10), new, 0), (root_id(1, 9), new, 0)]) == [True, False]


def told(remembered):
    """Encode what tests let a deduplicator remember: pairs of lineages and a name."""
    return pickle.dumps([(list(lineages), name) for lineages, name in remembered])


def restored(deduplicator, marks=None):
    """Make another that knows what a snapshot tells, written and read."""
    found = Deduplicator()
    written = snapshot.encode(deduplicator.snapshot(told, marks))
    found.restore(
        snapshot.decode(written, DeduplicatorSnapshot),
        lambda data: [(numbers(lineages), (lineages, name)) for lineages, name in pickle.loads(data)],
    )
    return found


@given(STEPS, st.integers(0, 5), st.booleans(), st.sampled_from([{}, {2: (1, FIRST_INCARNATION + 1)}]))
def test_one_that_was_restored_goes_on_as_the_one_before_it(steps, at, remembers, floors):
    """Two deduplicators see the same; one of them is replaced by its snapshot's on the way."""
    both = [Deduplicator(), Deduplicator()]
    both[0].floors = both[1].floors = floors
    marks, sent_first = {1: 0, 2: 0}, set()
    for number, step in enumerate(steps):
        if number == at:
            both[1] = restored(both[1])
        if isinstance(step, tuple):
            partition, by = step
            marks[partition] += by
            for each in both:
                each.low_water(partition, marks[partition])
            continue
        bundles = []
        for partition, ahead, replay, child in step:
            offset = max(0, marks[partition] - 1) + ahead
            inc = FIRST_INCARNATION + max(replay, (partition, offset, child) in sent_first)
            sent_first.add((partition, offset, child))
            bundles.append((root_id(partition, offset), inc, child))
        keeps = [admitted(each, bundles) for each in both]
        assert keeps[0] == keeps[1]
        fresh = [bundle for bundle, new in zip(bundles, keeps[0], strict=True) if new]
        lineages = [lineage_of(root, child) for root, _, child in fresh]
        for each in both:
            if remembers and fresh:
                each.remember(batch_of(fresh), (lineages, number))
        for root, _, child in bundles:
            if root & ((1 << OFFSET_BITS) - 1) >= marks[root >> OFFSET_BITS]:
                assert both[0].recall(lineage_of(root, child)) == both[1].recall(lineage_of(root, child))


def test_one_that_was_restored_knows_what_was_replayed_and_what_is_too_old():
    deduplicator = Deduplicator()
    late = root_id(1, 5)
    assert admitted(deduplicator, [(late, FIRST_INCARNATION + 1, 0)]) == [True]
    assert admitted(restored(deduplicator), [(late, FIRST_INCARNATION, 0)]) == [False]
    deduplicator.floors = {1: (0, 2 * FIRST_INCARNATION)}
    assert admitted(restored(deduplicator), [(root_id(1, 6), FIRST_INCARNATION, 0)]) == [False]


def test_below_the_marks_of_a_snapshot_nothing_is_kept_and_nothing_passes():
    deduplicator = Deduplicator()
    for offset in range(4 * GENERATION):
        bundle = (root_id(1, offset), FIRST_INCARNATION, 0)
        admitted(deduplicator, [bundle])
        deduplicator.remember(batch_of([bundle]), ([lineage_of(bundle[0])], offset))
    low = 2 * GENERATION
    above = restored(deduplicator, {1: low})
    assert len(above) == 2 * GENERATION
    assert len(deduplicator) == 4 * GENERATION
    again = [(root_id(1, offset), FIRST_INCARNATION + 1, 0) for offset in range(4 * GENERATION)]
    assert not any(admitted(above, again))
    assert [above.recall(lineage_of(root)) is not None for root, _, _ in again] == [
        offset >= low for offset in range(4 * GENERATION)
    ]
    assert admitted(above, [(root_id(1, low - 1), FIRST_INCARNATION, 9), (root_id(1, low), FIRST_INCARNATION, 9)]) == [
        False,
        True,
    ]


def test_a_snapshot_does_not_go_back_behind_the_marks_that_are_known():
    deduplicator = Deduplicator()
    admitted(deduplicator, [(root_id(1, 9), FIRST_INCARNATION, 0)])
    deduplicator.low_water(1, 5)
    assert admitted(restored(deduplicator, {1: 2}), [(root_id(1, 4), FIRST_INCARNATION, 0)]) == [False]
