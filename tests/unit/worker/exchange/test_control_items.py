"""The table of ``tailrace.items`` holds from outbox to inbox: random interleavings, and variants that break it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.properties import examples
from tests.unit.worker.exchange.item_play import Play

from tailrace.items import RULES, End, Paused, Prompt, Resync
from tailrace.transport import wire
from tailrace.worker.exchange.control_items import ChannelOrderError, ControlItems

STEPS = (
    "send",
    "send",
    "control",
    "control",
    "pause",
    "release",
    "flush",
    "deliver",
    "take",
    "work",
    "credits",
    "carry",
)
SCRIPTS = st.lists(
    st.tuples(st.sampled_from((*STEPS, "end")), st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=40
)
INBOXES = ["per_task", "shared"]


@pytest.mark.parametrize("inbox", INBOXES)
@examples(120)
@given(script=SCRIPTS)
def test_the_table_holds_over_any_interleaving(inbox, script):
    Play(inbox).run(script)


# -- variants that break a promise -----------------------------------------------------------------------------------


class Broken(ControlItems):
    """In the place of a worker's own, with its handlers."""

    def __init__(self, state):
        super().__init__(state.slot, state.outgoing)
        self._handlers = state.control._handlers
        self._kept = []


class Overtaking(Broken):
    """Items go in front of all that waits in the outgoing buffer: they overtake what was sent before them."""

    def send(self, slot, channel, item):
        if slot != self._slot and slot in self._outgoing._frames:
            first = self._outgoing._frames[slot][0]
            first.insert(1, wire.control_frame(channel, item))
            first[0], first[1] = first[0][: wire.MESSAGE_HEAD_BYTES], first[1] + first[0][wire.MESSAGE_HEAD_BYTES :]
        else:
            super().send(slot, channel, item)


class Overtaken(Broken):
    """Items are sent one behind: what is sent after them overtakes them."""

    def send(self, slot, channel, item):
        self._kept.append((slot, channel, item))
        if len(self._kept) > 1:
            super().send(*self._kept.pop(0))


class Waiting(Broken):
    """No item overtakes what waits in the outbox: pauses wait for it as an end does."""

    def say(self, box, item):
        self._kept.append((box, item))
        for each in [kept for kept in self._kept if not kept[0].values]:
            self._kept.remove(each)
            super().say(*each)


class LateHere(Broken):
    """Within a worker items arrive with the next one only."""

    def send(self, slot, channel, item):
        if slot == self._slot:
            self._kept.append((channel, item, slot))
            if len(self._kept) > 1:
                self.arrive(*self._kept.pop(0))
        else:
            super().send(slot, channel, item)


class EndAtOnce(Broken):
    """An end takes effect while the data in front of it waits in a shared inbox, or is worked on."""

    def __init__(self, state):
        super().__init__(state)
        self.handle(End, lambda number, _, __: setattr(state.inbound[number][1], "ended", True))


def must_fail(inbox, broken=None):
    """Look for an interleaving that shows what is broken."""
    search = settings(max_examples=400, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
                      suppress_health_check=list(HealthCheck))  # fmt: skip
    with pytest.raises((AssertionError, ChannelOrderError)):
        search(given(script=SCRIPTS)(lambda script: Play(inbox, broken).run(script)))()


@pytest.mark.parametrize("broken", [Overtaking, Overtaken, Waiting, LateHere])
@pytest.mark.parametrize("inbox", INBOXES)
def test_a_broken_promise_is_found(inbox, broken):
    must_fail(inbox, broken)


def test_an_end_that_overtakes_a_shared_inbox_is_found():
    must_fail("shared", EndAtOnce)


@pytest.mark.parametrize(
    ("kind", "column"),
    [(End, "overtakes_outbox"), (End, "overtakes_inbox"), (Paused, "overtakes_inbox")],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
def test_a_table_that_says_otherwise_is_found(monkeypatch, kind, column):
    """Of what overtakes the outbox the table itself decides, but for the end, for which the outbox does."""
    monkeypatch.setitem(RULES, kind, replace(RULES[kind], **{column: not getattr(RULES[kind], column)}))
    must_fail("per_task")


def test_after_a_broken_connection_all_is_said_again():
    play = Play("per_task")
    way, other = (each for each in play.order if each.box.slot == 1)
    play.send(way, 2)
    play.end(way, 0)
    play.flush()
    way.box.prompt = True
    play.mesh.mail.clear()
    way.said = [(each, 0 if type(each) is Resync else 2, False) for each in (Resync(2), Prompt(on=True), End())]
    other.said = [(Resync(0), 0, False)]
    play.mesh.brains[0].on_reconnect(1)
    play.flush()
    play.deliver(None, 100)
    assert [type(item) for item in way.arrived] == [Resync, Prompt, End]
