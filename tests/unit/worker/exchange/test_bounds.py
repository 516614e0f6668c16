"""How a worker's bytes are shared out over its queues."""

from __future__ import annotations

import pytest

from tailrace.config import Settings
from tailrace.errors import ConfigError
from tailrace.worker.exchange.bounds import QUEUE_BYTES, WINDOW_BYTES_MIN, queue_bounds

MIB = 1 << 20


def test_the_queues_of_all_tasks_of_a_worker_have_their_share():
    bounds = queue_bounds(Settings(queue_bytes=120 * MIB), [[0, 1], [0, 1]])  # two tasks on each of two workers
    assert bounds.inbox == bounds.outbox == bounds.pending == 20 * MIB
    assert bounds.driver == 30 * MIB
    assert bounds.window(4) == 5 * MIB


def test_a_channel_has_room_for_a_frame_however_many_there_are():
    bounds = queue_bounds(Settings(queue_bytes=MIB), [[0] * 500])
    assert bounds.window(500) == WINDOW_BYTES_MIN
    assert queue_bounds(Settings(queue_bytes=1), [[0]]).driver == WINDOW_BYTES_MIN


def test_without_a_word_from_the_host_there_is_a_default():
    assert queue_bounds(Settings(), [[0]]).driver == QUEUE_BYTES // 4


def test_a_bound_is_a_positive_number():
    with pytest.raises(ConfigError, match="queue_bytes"):
        Settings(queue_bytes=-1)
