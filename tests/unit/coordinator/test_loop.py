"""The coordinator's loop: what another thread asks for is done at once."""

from __future__ import annotations

import threading
from collections import deque

from tailrace.clock import SystemClock
from tailrace.coordinator import loop as loops


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
