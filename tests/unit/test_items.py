"""The table of control items as a whole, and their bytes."""

from __future__ import annotations

import inspect

import pytest

from tailrace import items
from tailrace.items import RULES, Direction, End, Moved, Paused
from tailrace.transport import wire


def kinds():
    return {kind for _, kind in inspect.getmembers(items, inspect.isclass) if issubclass(kind, items.Control)} - {
        items.Control
    }


def test_every_kind_has_a_rule_and_a_place_on_the_wire():
    assert kinds() == RULES.keys() == wire.CONTROL.keys()
    assert len({kind for kind, _ in wire.CONTROL.values()}) == len(RULES)
    assert {kind for kind, rule in RULES.items() if rule.direction is Direction.AGAINST_DATA} == {
        items.Credit, items.Seen,
    }  # fmt: skip


def test_pauses_and_moves_overtake_at_both_ends_and_ends_at_none():
    assert (RULES[Paused].overtakes_outbox, RULES[Paused].overtakes_inbox) == (True, True)
    assert (RULES[Moved].overtakes_outbox, RULES[Moved].overtakes_inbox) == (True, True)
    assert (RULES[End].overtakes_outbox, RULES[End].overtakes_inbox) == (False, False)


@pytest.mark.parametrize("kind", sorted(RULES, key=lambda each: each.__name__))
def test_an_item_is_read_back_and_one_of_another_length_is_refused(kind):
    item = kind(*[True if field == "bool" else 7 for field in kind.__annotations__.values()])
    ((number, channel, payload),) = wire.frames(wire.message_head(1, 1) + wire.control_frame(5, item))
    assert (channel, wire.control_of(number, payload)) == (5, item)
    with pytest.raises(wire.WireError, match="payload"):
        wire.control_of(number, bytes(payload) + b"x")
    with pytest.raises(wire.WireError, match="no control item"):
        wire.control_of(wire.ACKS, payload)
