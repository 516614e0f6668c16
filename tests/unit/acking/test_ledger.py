"""The ledger against a plain model: trees of bundles, acks in any order, replays at any time."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tailrace.acking.ledger import Ledger
from tailrace.batch import REPLAY_BITS, mix, root_id

NEVER = object()


class Tree:
    """One incarnation of a root in flight: bundles that wait to be worked on; working on one may give others."""

    def __init__(self, rng, root, inc):
        self.rng, self.root, self.inc = rng, root, inc
        self.next_child = 0
        self.waiting = [self._child(mix(root, 1)) for _ in range(rng.randint(0, 3))]
        self.budget = 6

    def _child(self, parent):
        self.next_child += 1
        return mix(parent, self.next_child << 8 | self.inc & 0xFF)

    @property
    def xor(self):
        total = 0
        for lineage in self.waiting:
            total ^= lineage
        return total

    def work(self):
        """Finish one bundle: gives the ack that its task would send."""
        lineage = self.waiting.pop(self.rng.randrange(len(self.waiting)))
        children = [self._child(lineage) for _ in range(self.rng.randint(0, min(2, self.budget)))]
        self.budget -= len(children)
        self.waiting += children
        ack = lineage
        for child in children:
            ack ^= child
        return self.root, self.inc, ack


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(0, 10))
def test_a_root_is_open_exactly_while_its_newest_incarnation_has_work_or_acks_under_way(seed, count, replays):
    rng = random.Random(seed)
    ledger = Ledger(attempt=3)
    roots = [root_id(1, 10 * n) for n in range(count)]
    trees = {root: Tree(rng, root, ledger.base_inc) for root in roots}
    older: list[Tree] = []
    ledger.skip_to(1, 0)
    done = ledger.emit(roots, [trees[root].xor for root in roots], [0] * count, 1, NEVER)
    assert len(done) == sum(not trees[root].waiting for root in roots)
    under_way: list[tuple[int, int, int]] = []

    def open_in_model():
        acks = {(root, inc) for root, inc, _ in under_way}
        return {root for root, tree in trees.items() if tree.waiting or (root, tree.inc) in acks}

    completed = len(done)
    for _ in range(10_000):
        assert set(ledger.everything()) == open_in_model()
        busy = [tree for tree in [*trees.values(), *older] if tree.waiting]
        if replays and rng.random() < 0.1 and len(ledger):
            replays -= 1
            root = rng.choice(ledger.everything())
            older.append(trees[root])
            inc, given_outputs, index = ledger.reincarnate(root, 5)
            assert given_outputs is NEVER
            assert roots[index] == root
            trees[root] = Tree(rng, root, inc)
            while not trees[root].waiting:
                trees[root] = Tree(rng, root, inc)
            ledger.sent_again(root, trees[root].xor)
        elif busy and (not under_way or rng.random() < 0.5):
            under_way.append(rng.choice(busy).work())
        elif under_way:
            picked = [under_way.pop(rng.randrange(len(under_way))) for _ in range(rng.randint(1, len(under_way)))]
            completed += len(ledger.acks(*map(list, zip(*picked, strict=True)), now_ns=9))
        else:
            break
    assert not len(ledger)
    assert completed == ledger.completed == count
    assert ledger.low_water() == {1: 10 * (count - 1) + 1}


def test_latency_counts_from_when_a_root_was_due():
    ledger = Ledger(1)
    assert ledger.emit([root_id(1, 0), root_id(1, 1)], [0, 7], [100, 200], 1000, None) == [900]
    assert ledger.acks([root_id(1, 1)], [ledger.base_inc], [7], 5000) == [4800]


def test_acks_of_an_older_incarnation_or_an_unknown_root_change_nothing():
    ledger = Ledger(2)
    root = root_id(1, 0)
    ledger.emit([root], [7], [0], 0, None)
    inc, _, _ = ledger.reincarnate(root, 1)
    ledger.sent_again(root, 9)
    assert ledger.acks([root, root_id(1, 9)], [ledger.base_inc, inc], [7, 9], 2) == []
    assert ledger.acks([root], [inc], [9], 2) == [2]
    assert ledger.replays == 1


def test_incarnations_carry_the_attempt_and_stay_within_it():
    ledger = Ledger(5)
    root = root_id(1, 0)
    ledger.emit([root], [7], [0], 0, None)
    incs = [ledger.reincarnate(root, 1)[0] for _ in range(1 << REPLAY_BITS)]
    assert {inc >> REPLAY_BITS for inc in incs} == {5}
    assert len(set(incs)) == 1 << REPLAY_BITS


def test_the_low_water_mark_is_the_oldest_open_root_of_each_partition():
    ledger = Ledger(1)
    ledger.skip_to(2, 40)
    ledger.emit([root_id(1, n) for n in range(5)], [1] * 5, [0] * 5, 0, None)
    ledger.skip_to(1, 99)  # a partition that has begun is past its start
    assert ledger.low_water() == {1: 0, 2: 40}
    ledger.acks([root_id(1, 0), root_id(1, 2)], [ledger.base_inc] * 2, [1, 1], 0)
    assert ledger.low_water()[1] == 1
    ledger.acks([root_id(1, n) for n in (1, 3, 4)], [ledger.base_inc] * 3, [1, 1, 1], 0)
    assert ledger.low_water()[1] == 5


def test_overdue_roots_come_oldest_first_and_not_again_at_once():
    ledger = Ledger(1)
    ledger.emit([root_id(1, 0), root_id(1, 1)], [1, 1], [0, 0], 0, None)
    ledger.emit([root_id(1, 2)], [1], [0], 50, None)
    assert ledger.overdue(100, 60, 9) == [root_id(1, 0), root_id(1, 1)]
    assert ledger.overdue(100, 60, 1) == [root_id(1, 0)]
    ledger.reincarnate(root_id(1, 0), 100)
    assert ledger.overdue(100, 60, 9) == [root_id(1, 1)]


def test_untracked_roots_count_as_complete():
    ledger = Ledger(1)
    ledger.pass_by(1, 7, 2)
    assert (ledger.completed, ledger.low_water(), len(ledger)) == (2, {1: 8}, 0)
