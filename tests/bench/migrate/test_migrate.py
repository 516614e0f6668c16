"""What the bench of moves makes of arrivals, and that its keys are dealt out evenly."""

from __future__ import annotations

from collections import Counter

from tailrace.batch import Batch, numbers
from tailrace.config import Settings
from tailrace.routing.fields import Fields
from tailrace_bench.migrate import hot_key
from tailrace_bench.migrate import run as migrate
from tailrace_bench.migrate.flow import faults, keys_of, names_of
from tailrace_bench.migrate.run import MigrationTrace, case_rows, pauses_ms

MS = 1_000_000


def arrivals(numbers_of_key, latency_ms=2):
    return [(number, at * 10 * MS, at * 10 * MS + latency_ms * MS) for at, number in enumerate(numbers_of_key)]


def test_lost_doubled_and_reordered_are_told_apart():
    assert faults({0: arrivals([0, 1, 2])}) == (0, 0, 0)
    assert faults({0: arrivals([0, 2, 3]), 1: arrivals([])}) == (1, 0, 0)
    assert faults({0: arrivals([0, 1, 1, 2])}) == (0, 1, 0)
    assert faults({0: arrivals([0, 2, 1, 3])}) == (0, 0, 1)


def test_every_task_has_as_many_keys():
    names = names_of(Settings().key_groups)
    router = Fields(None, migrate.WORKERS, Settings().key_groups)
    tasks = router.choose(list(names), Batch([], None, numbers()))
    assert tasks == [key % migrate.WORKERS for key in range(migrate.KEYS)]
    assert set(Counter(tasks).values()) == {migrate.KEYS // migrate.WORKERS}
    assert sorted(key for task in range(migrate.WORKERS) for key in keys_of(task)) == list(range(migrate.KEYS))


def test_a_pause_is_that_of_the_keys_that_moved_while_they_moved():
    found = MigrationTrace({key: arrivals(range(300)) for key in range(migrate.KEYS)})
    moved = keys_of(1)
    for key in moved:
        number, due_ns, _ = found.by_key[key][100]
        found.by_key[key][100] = number, due_ns, due_ns + 80 * MS
    found.moves = [(995 * MS, 1010 * MS, moved)]
    found.moving, found.still = [(900 * MS, 1600 * MS)], [(0, 900 * MS)]
    assert max(pauses_ms(found)) == 80.0
    assert len(pauses_ms(found)) == len(moved)
    rows = {row["metric"]: row for row in case_rows("keyed", found)}
    assert rows["lost"]["ok"]
    assert rows["pause_p99_ms"]["value"] == 80.0
    assert rows["pause_p99_ms"]["ok"]
    assert rows["others_p99_ms"]["ratio"] == 1.0


def test_three_in_five_are_of_the_hot_key_and_a_third_of_the_others_is_beside_it():
    found = [hot_key.key_of(number) for number in range(5000)]
    counts = Counter(key for key, _ in found)
    assert counts[hot_key.HOT] == 3000
    assert set(counts) == set(range(migrate.KEYS))
    for key in counts:
        assert [number for each, number in found if each == key] == list(range(counts[key]))
    router = Fields(None, hot_key.TASKS, Settings().key_groups)
    tasks = router.choose(names_of(Settings().key_groups, hot_key.TASKS), Batch([], None, numbers()))
    assert tasks == [key % hot_key.TASKS for key in range(migrate.KEYS)]
