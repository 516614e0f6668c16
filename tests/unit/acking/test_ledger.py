"""The ledger against a plain model: trees of bundles, acks in any order, replays at any time."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.heads import heads_of

from tailrace.acking.ledger import OLDER_MAX, Ledger
from tailrace.batch import REPLAY_BITS, mix, numbers, root_id, root_lineage
from tailrace.hot import root_heads

NEVER = object()


class Tree:
    """One incarnation of a root in flight: bundles that wait to be worked on; what one gives shares its name out."""

    def __init__(self, rng, root, inc, *, empty=True):
        self.rng, self.root, self.inc = rng, root, inc
        self.next_child = 0
        self.budget = 6
        self.waiting = []
        #: What the source itself acknowledges, having sent nothing for it.
        self.left = self._share_out(root_lineage(root), rng.randint(0 if empty else 1, 3))

    def _share_out(self, share, pieces):
        """Put so many pieces under way; a part of the share may be left over, as where a branch gives nothing."""
        whole = self.rng.random() < 0.7
        for piece in range(pieces):
            self.next_child += 1
            name = share if whole and piece == pieces - 1 else mix(self.root, self.next_child << 8 | self.inc & 0xFF)
            self.waiting.append(name)
            share ^= name
        return share

    def work(self):
        """Finish one bundle: gives the ack that its task would send, if any."""
        lineage = self.waiting.pop(self.rng.randrange(len(self.waiting)))
        pieces = self.rng.randint(0, min(2, self.budget))
        self.budget -= pieces
        left = self._share_out(lineage, pieces)
        return [(self.root, self.inc, left)] if left else []


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(0, 10))
def test_a_root_is_open_exactly_while_every_incarnation_that_counts_has_work_or_acks_under_way(seed, count, replays):
    rng = random.Random(seed)
    ledger = Ledger(attempt=3)
    roots = [root_id(1, 10 * n) for n in range(count)]
    #: Per root the incarnations that count, oldest first; ``void`` are those that do not.
    trees = {root: [Tree(rng, root, ledger.base_inc)] for root in roots}
    void: list[Tree] = []
    ledger.skip_to(1, 0)
    heads = root_heads(1, [10 * n for n in range(count)], ledger.base_inc)
    done = ledger.emit(heads, numbers(trees[root][0].left for root in roots), [0] * count, 1, NEVER)
    assert len(done) == sum(not trees[root][0].waiting for root in roots)
    under_way: list[tuple[int, int, int]] = []

    def open_in_model():
        acks = {(root, inc) for root, inc, _ in under_way}
        return {root for root, each in trees.items() if all(tree.waiting or (root, tree.inc) in acks for tree in each)}

    completed = len(done)
    for _ in range(10_000):
        assert set(ledger.everything()) == open_in_model()
        busy = [tree for tree in [*void, *(tree for each in trees.values() for tree in each)] if tree.waiting]
        if replays and rng.random() < 0.1 and len(ledger):
            replays -= 1
            root = rng.choice(ledger.everything())
            lost = rng.random() < 0.3
            inc, given_outputs, index = ledger.reincarnate(root, 5, lost=lost)
            assert given_outputs is NEVER
            assert roots[index] == root
            first = len(trees[root]) if lost else max(0, len(trees[root]) - OLDER_MAX)
            void += trees[root][:first]
            trees[root] = [*trees[root][first:], Tree(rng, root, inc, empty=False)]
            assert not ledger.acks(heads_of([root], [inc], [trees[root][-1].left]), 5)
        elif busy and (not under_way or rng.random() < 0.5):
            under_way += rng.choice(busy).work()
        elif under_way:
            picked = [under_way.pop(rng.randrange(len(under_way))) for _ in range(rng.randint(1, len(under_way)))]
            completed += len(ledger.acks(heads_of(*zip(*picked, strict=True)), 9))
        else:
            break
    assert not len(ledger)
    assert completed == ledger.completed == count
    assert ledger.low_water() == {1: 10 * (count - 1) + 1}


def entered(ledger, offsets, *, partition=1, now_ns=0, due_ns=0, done=None):
    heads = root_heads(partition, offsets, ledger.base_inc)
    return ledger.emit(heads, done, [due_ns] * len(offsets), now_ns, None)


def ack_of(ledger, *offsets, inc=None):
    roots = [root_id(1, offset) for offset in offsets]
    return heads_of(roots, [ledger.base_inc if inc is None else inc] * len(roots), map(root_lineage, roots))


def test_latency_counts_from_when_a_root_was_due():
    ledger = Ledger(1)
    nothing_sent = numbers([root_lineage(root_id(1, 0)), 0])
    assert ledger.emit(root_heads(1, [0, 1], ledger.base_inc), nothing_sent, [100, 200], 1000, None) == [900]
    assert ledger.acks(ack_of(ledger, 1), 5000) == [4800]


def test_acks_from_before_a_loss_or_of_an_unknown_root_change_nothing():
    ledger = Ledger(2)
    root = root_id(1, 0)
    entered(ledger, [0])
    inc, _, _ = ledger.reincarnate(root, 1, lost=True)
    assert ledger.acks(ack_of(ledger, 0) + ack_of(ledger, 9, inc=inc), 2) == []
    assert ledger.acks(ack_of(ledger, 0, inc=inc), 2) == [2]
    assert ledger.replays == 1


def test_the_fastest_incarnation_counts_from_when_the_root_was_first_sent():
    ledger = Ledger(2)
    ledger.spent = []
    entered(ledger, [0, 1], now_ns=10, due_ns=4)
    incs = [ledger.reincarnate(root_id(1, offset), 100)[0] for offset in (0, 1)]
    assert ledger.ages(110) == [100, 100]
    assert ledger.acks(ack_of(ledger, 0), 110) == [106]  # the first incarnation after all
    assert ledger.acks(ack_of(ledger, 0, inc=incs[0]), 120) == []
    assert ledger.acks(ack_of(ledger, 1, inc=incs[1]) + ack_of(ledger, 1), 120) == [116]
    assert ledger.spent == [100, 110]
    assert ledger.completed == 2
    assert not len(ledger)


def test_incarnations_carry_the_attempt_and_stay_within_it():
    ledger = Ledger(5)
    entered(ledger, [0])
    incs = [ledger.reincarnate(root_id(1, 0), 1)[0] for _ in range(1000)]
    assert {inc >> REPLAY_BITS for inc in incs} == {5}
    # Were one of them the first again, the deduplicator would take a replay for a fresh root.
    assert len({*incs, ledger.base_inc}) == 1001


def test_the_low_water_mark_is_the_oldest_open_root_of_each_partition():
    ledger = Ledger(1)
    ledger.skip_to(2, 40)
    entered(ledger, range(5))
    ledger.skip_to(1, 99)  # a partition that has begun is past its start
    assert ledger.low_water() == {1: 0, 2: 40}
    ledger.acks(ack_of(ledger, 0, 2), 0)
    assert ledger.low_water()[1] == 1
    ledger.acks(ack_of(ledger, 1, 3, 4), 0)
    assert ledger.low_water()[1] == 5


def test_overdue_roots_come_oldest_first_and_not_again_at_once():
    ledger = Ledger(1)
    entered(ledger, [0, 1])
    entered(ledger, [2], now_ns=50)
    assert ledger.overdue(100, 60, 9) == [root_id(1, 0), root_id(1, 1)]
    assert ledger.overdue(100, 60, 1) == [root_id(1, 0)]
    ledger.reincarnate(root_id(1, 0), 100)
    assert ledger.overdue(100, 60, 9) == [root_id(1, 1)]


def test_untracked_roots_count_as_complete():
    ledger = Ledger(1)
    ledger.pass_by(1, 7, 2)
    assert (ledger.completed, ledger.low_water(), len(ledger)) == (2, {1: 8}, 0)
