"""The coordinator's loop: what another thread asks for is done at once."""

from __future__ import annotations

import threading
from collections import deque

import pytest

from tailrace.clock import SystemClock
from tailrace.coordinator import loop as loops
from tailrace.coordinator.errors import CoordinatorError


class Brain:
    """Counts how often it was asked for what is due."""

    def __init__(self):
        self.state = "running"
        self.out = deque()
        self.changed = False
        self.seen = threading.Event()

    def tick(self, now_ns):
        if self.changed:
            self.seen.set()

    def close_book(self, now_ns):
        pass


def test_what_is_asked_for_does_not_wait_for_the_next_tick(monkeypatch):
    monkeypatch.setattr(loops, "_TICK_S", 600.0)
    brain = Brain()
    loop = loops.CoordinatorLoop(brain, SystemClock(), "127.0.0.1", b"secret" * 8, 1 << 20)
    loop.start()
    loop.ask(lambda asked, _: setattr(asked, "changed", True))
    assert brain.seen.wait(60)
    monkeypatch.setattr(loops, "_TICK_S", 0.0)
    loop.ask(lambda asked, _: setattr(asked, "state", "ended"))
    assert loop.ended.wait(60)
    loop.ask(lambda asked, _: None)  # nobody is there any more, and nobody minds


class Failing(Brain):
    """Raises when it is asked for what is due, always or once."""

    def __init__(self, times):
        super().__init__()
        self.times, self.error = times, None

    def tick(self, now_ns):
        if self.times:
            self.times -= 1
            raise SystemExit(9)

    def fail_even_late(self, error):
        self.error = self.error or error
        self.state = "ended"


@pytest.mark.parametrize("times", [1, 1_000_000])
def test_whatever_escapes_ends_the_query_by_name_and_the_loop(times):
    brain = Failing(times)
    loop = loops.CoordinatorLoop(brain, SystemClock(), "127.0.0.1", b"secret" * 8, 1 << 20)
    loop.start()
    assert loop.ended.wait(60)
    assert isinstance(brain.error, CoordinatorError)
    assert "SystemExit: 9" in brain.error.message
