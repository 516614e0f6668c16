"""The innermost loops in C give what the same loops in Python give."""

from __future__ import annotations

import collections
import contextlib
import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.unit.heads import heads_of

from tailrace import hot
from tailrace.batch import REPLAY_BITS, numbers, root_id, root_lineage

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
    heads = heads_of(range(len(sizes)), [256] * len(sizes), lineages)
    shares = numbers(draw(st.lists(U64, min_size=len(sizes), max_size=len(sizes)))) if draw(st.booleans()) else None
    tags = draw(st.lists(U64, min_size=boxes, max_size=boxes, unique=True))
    last = draw(st.booleans())
    return values, dests, None if plain else sizes, heads, shares, last, boxes, tags, draw(st.integers(1, 5))


def filed(function, filing):
    values, dests, sizes, heads, shares, last, boxes, tags, piece_max = filing
    columns = [([], [], numbers()) for _ in range(boxes)]
    left = function(values, dests, sizes, heads, shares, last, columns, tags, piece_max)
    return left, columns


@native
@given(filings())
def test_bundles_are_filed_alike(filing):
    assert filed(hot.file_bundles, filing) == filed(hot.file_bundles_py, filing)


@given(filings())
def test_every_value_is_filed_once_and_the_shares_add_up(filing):
    values, dests, sizes, heads, shares, last, boxes, _, piece_max = filing
    left, columns = filed(hot.file_bundles, filing)
    given_away = [0] * (len(heads) // 3)
    for dest in range(boxes):
        box_values, box_sizes, box_heads = columns[dest]
        assert box_values == [value for value, to in zip(values, dests, strict=True) if to == dest]
        assert sum(box_sizes) == len(box_values)
        assert all(1 <= size <= piece_max for size in box_sizes)
        for root, lineage in zip(box_heads[0::3], box_heads[2::3], strict=True):
            given_away[root] ^= lineage
    wanted = heads[2::3] if shares is None else shares
    rest = left if left is not None else [0] * len(given_away)
    assert [away ^ over for away, over in zip(given_away, rest, strict=True)] == list(wanted)
    if last:  # what was passed on leaves nothing to acknowledge
        counts = sizes if sizes is not None else [1] * len(rest)
        assert all(over == (0 if count else share) for over, count, share in zip(rest, counts, wanted, strict=True))


@given(filings(), st.integers(1, 3))
def test_a_replay_dealt_to_other_tasks_goes_by_the_same_names(filing, turn):
    """Shuffle deals a replay out from another start; what comes of it must be known again by a guard further on."""
    values, dests, sizes, heads, shares, last, boxes, tags, piece_max = filing
    turned = [(dest + turn) % boxes for dest in dests]
    first = filed(hot.file_bundles, filing)
    again = filed(hot.file_bundles, (values, turned, sizes, heads, shares, last, boxes, tags, piece_max))
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


ROOT = st.integers(0, 40).map(lambda offset: root_id(1 + offset % 2, offset))


class BothLedgers(RuleBasedStateMachine):
    """The open roots in C and in Python, told the same things."""

    def __init__(self):
        super().__init__()
        self.native, self.plain, self.now_ns = hot.OpenRoots(), hot.OpenRootsPy(), 0

    def both(self, method, *args):
        self.now_ns += 1
        found, wanted = getattr(self.native, method)(*args), getattr(self.plain, method)(*args)
        assert found == wanted
        return found

    @rule(roots=st.lists(ROOT, max_size=12, unique=True), done=st.booleans(), dues=st.booleans())
    def enter(self, roots, done, dues):
        roots = [root for root in roots if root not in self.plain]
        lineages = [root_lineage(root) for root in roots]
        heads = heads_of(roots, [256] * len(roots), lineages)
        complete = numbers(name if at % 3 == 0 else at % 2 for at, name in enumerate(lineages)) if done else None
        self.both("enter", heads, complete, list(range(len(roots))) if dues else None, self.now_ns, self)

    @rule(acks=st.lists(st.tuples(ROOT, st.sampled_from([256, 257]), st.sampled_from([0, 1, 5])), max_size=12))
    def settle(self, acks):
        heads = numbers()
        for root, inc, off in acks:
            left = self.plain.look(root)[0] if root in self.plain else 1
            heads.extend((root, inc, left ^ off))
        spent = [], []
        found = self.native.settle(heads, self.now_ns, spent[0])
        assert found == self.plain.settle(heads, self.now_ns, spent[1])
        assert spent[0] == spent[1]
        assert len(spent[0]) == len(found[0])

    @rule(root=ROOT)
    def restart_or_close(self, root):
        assert (root in self.native) == (root in self.plain)
        if root in self.plain:
            self.both("restart", root, 257, 77, self.now_ns)
            if root % 3 == 0:
                self.both("close", root)

    @invariant()
    def alike(self):
        assert len(self.native) == len(self.plain)
        assert self.native.lows() == self.plain.lows()
        assert self.native.ages(self.now_ns) == self.plain.ages(self.now_ns)
        roots = self.plain.sent_before(1 << 62, 1000)
        assert self.native.sent_before(1 << 62, 1000) == roots
        assert [self.native.look(root) for root in roots] == [self.plain.look(root) for root in roots]
        assert self.native.sent_before(self.now_ns - 3, 4) == self.plain.sent_before(self.now_ns - 3, 4)


TestBothLedgers = native(BothLedgers.TestCase)


@native
@pytest.mark.parametrize("held", [1, 700])
def test_a_root_that_stays_open_does_not_make_the_slab_grow_for_ever(held):
    """Millions pass an old root by; the slab is packed, and everything is still found."""
    ledger, plain = hot.OpenRoots(), hot.OpenRootsPy()
    for at in range(0, 40_000, 100):
        heads = hot.root_heads(1, range(at, at + 100), 256)
        acks = numbers(n for i in range(100) if at >= held or at + i >= held for n in heads[3 * i : 3 * i + 3])
        for open_roots in (ledger, plain):
            open_roots.enter(heads, None, None, at, None)
        assert ledger.settle(acks, at + 5, None) == plain.settle(acks, at + 5, None)
    assert len(ledger) == held
    assert ledger.sent_before(1 << 62, 10_000) == plain.sent_before(1 << 62, 10_000)


def test_a_root_cannot_be_entered_twice():
    for kind in (hot.OpenRoots, hot.OpenRootsPy):
        ledger = kind()
        heads = hot.root_heads(1, [7], 256)
        ledger.enter(heads, None, None, 0, None)
        with pytest.raises(ValueError, match="open already"):
            ledger.enter(heads, None, None, 0, None)
        with pytest.raises(KeyError):
            ledger.look(1)


@native
@given(st.integers(1, 60_000), st.lists(st.integers(0, 2**47 - 1)), st.integers(0, 2**32))
def test_heads_are_made_and_surveyed_alike(partition, offsets, inc):
    heads = hot.root_heads(partition, offsets, inc)
    assert heads == hot.root_heads_py(partition, offsets, inc)
    assert hot.survey(heads) == hot.survey_py(heads)
    mixed = heads + hot.root_heads(partition, offsets, inc + 1)
    assert hot.survey(mixed) == hot.survey_py(mixed)
    both = heads + hot.root_heads(partition + 1, offsets, inc) + heads
    assert hot.by_partition(both) == hot.by_partition_py(both)


@native
@given(st.lists(st.one_of(st.text(max_size=2), st.integers(0, 3), st.just([])), max_size=20))
def test_keys_are_counted_and_looked_up_alike(keys):
    found, wanted = ({"a": 3}, []), ({"a": 3}, [])
    outcomes = []
    for function, (counts, into) in ((hot.count_keys, found), (hot.count_keys_py, wanted)):
        with contextlib.suppress(TypeError):  # a list is no key
            function(counts, keys, into)
            outcomes.append(function)
    assert len(outcomes) in {0, 2}
    assert found == wanted
    table = collections.defaultdict(lambda: 9, {key: 1 for key, _ in wanted[1]})
    known = [key for key, _ in wanted[1]] + ["other"]
    assert hot.look_up(table, known) == hot.look_up_py(table, known)


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
        ([1, 2], [0], None, heads_of([0, 0], [0, 0], [1, 2]), None, True, 1, [5], 4),  # a destination short
        ([1], [1], None, heads_of([0], [0], [1]), None, True, 1, [5], 4),  # no such outbox
        ([1], [-1], None, heads_of([0], [0], [1]), None, True, 1, [5], 4),
        ([1, 2], [0, 0], [1], heads_of([0], [0], [1]), None, True, 1, [5], 4),  # sizes that do not cover the values
        ([1], [0], [1], numbers([0, 0]), None, True, 1, [5], 4),  # half a head
        ([1], [0], [1], heads_of([0], [0], [1]), numbers([1, 2]), True, 1, [5], 4),  # a share too many
        ([1], [0], [1], heads_of([0], [0], [1]), None, True, 1, [5], 0),  # no room in a piece
    ],
)
def test_columns_that_disagree_are_refused_and_do_not_crash(filing):
    with pytest.raises((ValueError, IndexError, OverflowError)):
        filed(hot.file_bundles, filing)


# -- bytes and patience ----------------------------------------------------------------------------------------------


@native
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=50) | st.binary(max_size=50),
        lambda inner: (
            st.lists(inner, max_size=40)
            | st.tuples(inner, inner)
            | st.dictionaries(st.text(max_size=8), inner, max_size=20)
            | st.frozensets(st.integers(), max_size=5)
        ),
        max_leaves=60,
    )
)
def test_values_weigh_alike_in_c_and_in_python(value):
    native_bytes, plain_bytes = hot.weigh([0, value], 1), hot.weigh_py([0, value], 1)
    assert native_bytes == pytest.approx(plain_bytes, rel=0.35, abs=64)


@pytest.mark.parametrize("weigh", [hot.weigh, hot.weigh_py])
def test_large_things_are_found_wherever_they_are(weigh):
    large = "x" * 1_000_000

    class Holder:
        def __init__(self):
            self.text = large

    class Slotted:
        __slots__ = ("text",)

        def __init__(self):
            self.text = large

    class Lies:
        def __sizeof__(self):
            raise RuntimeError("no")

    for value in (large, large.encode(), [large], (1, large), {"a": large}, {large: 1}, {large}, Holder(), Slotted()):
        assert 1_000_000 < weigh([value], 0) < 1_010_000
    assert weigh([large], 0) == weigh([0, large], 1)
    assert 0 < weigh([Lies()], 0) < 10_000
    assert weigh(list(range(10)), 4) < weigh(list(range(10)), 0)


@pytest.mark.parametrize("weigh", [hot.weigh, hot.weigh_py])
def test_weighing_ends_for_what_refers_to_itself_and_to_everything(weigh):
    round_and_round = []
    round_and_round.append(round_and_round)
    assert weigh([round_and_round], 0) < 10_000
    assert weigh([pytest], 0) < 100_000_000


@pytest.mark.parametrize("has_kind", [hot.has_kind, hot.has_kind_py])
def test_a_type_is_found_among_values_unless_it_is_a_mere_base(has_kind):
    assert has_kind([1, "a", 2.0], str)
    assert not has_kind([1, True], str)
    assert not has_kind([True], int)
    assert not has_kind([], int)


@pytest.mark.parametrize("kind", [hot.OpenRoots, hot.OpenRootsPy])
def test_bytes_of_open_roots_are_what_their_gifts_take(kind):
    ledger = kind()
    heads = hot.root_heads(1, range(4), 256)
    ledger.enter(heads, None, None, 0, "gift", 4000)
    assert ledger.bytes == 4000
    ledger.settle(heads[:3], 1, None)
    ledger.close(heads[3])
    assert ledger.bytes == 2000


@pytest.mark.parametrize("kind", [hot.OpenRoots, hot.OpenRootsPy])
def test_a_root_is_overdue_later_after_each_replay(kind):
    ledger = kind()
    first = 1 << REPLAY_BITS
    heads = hot.root_heads(1, range(3), first)
    ledger.enter(heads, None, None, 0, None)
    root = heads[0]
    everyone = list(heads[0::3])

    def overdue(now_ns, *, before_ns=1 << 60, replays_max=9, grace=0):
        return ledger.overdue(now_ns, before_ns, 100, 1000, 10, replays_max, grace)

    assert overdue(100) == []
    assert overdue(101) == everyone
    ledger.restart(root, first + 1, 1, 200)
    assert overdue(400) == everyone[1:]
    assert overdue(401) == everyone
    assert overdue(301, grace=1) == everyone
    ledger.restart(root, first + 5, 1, 1000)
    assert overdue(1999) == overdue(9999, replays_max=5) == everyone[1:]
    assert overdue(2001) == everyone  # 100 << 5 would be longer than the longest wait
    assert overdue(9999, before_ns=1000) == everyone[1:]
    assert ledger.overdue(9999, 1 << 60, 100, 1000, 2, 9, 0) == everyone[:2]
