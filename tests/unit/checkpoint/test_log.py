from __future__ import annotations

import msgspec
import pytest

from tailrace.checkpoint.errors import CheckpointTakenOverError
from tailrace.checkpoint.log import ManifestLog, manifest_name, part_name
from tailrace.checkpoint.manifest import Manifest, TaskRow
from tailrace.checkpoint.stores.memory import MemoryStore


def entry(number: int, *objects: str, epoch: int = 0, attempt: int = 1) -> Manifest:
    return Manifest(
        number=number, kind="checkpoint", query="words", attempt=attempt, execution=1, epoch=epoch or number,
        created_unix_s=0.0, drained=False, operators=(), partitions=(),
        tasks=(TaskRow("count", 0, objects),) if objects else (), tables={},
    )  # fmt: skip


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def log(store):
    return ManifestLog(store)


def test_an_empty_log_has_nothing_to_take_over(log):
    found = log.newest()
    assert found.manifest is None
    assert log.take_over(found) is None


def test_the_newest_entry_counts(log):
    for number in (1, 2, 3):
        log.append(entry(number))
    assert log.newest().manifest == entry(3)


def test_an_entry_may_be_repeated_by_who_wrote_it_and_by_nobody_else(log):
    log.append(entry(1))
    log.append(entry(1))
    with pytest.raises(CheckpointTakenOverError, match="Entry 1"):
        log.append(entry(1, attempt=2))


def test_a_predecessor_cannot_publish_once_it_was_taken_over(log):
    log.append(entry(1))
    taken = log.take_over(log.newest())
    assert (taken.number, taken.attempt, taken.epoch, taken.kind) == (2, 2, 1, "takeover")
    with pytest.raises(CheckpointTakenOverError):
        log.append(entry(2))


def test_what_a_predecessor_published_at_the_last_moment_is_what_is_taken_over(log):
    log.append(entry(1))
    found = log.newest()
    log.append(entry(2))
    taken = log.take_over(found)
    assert (taken.number, taken.attempt, taken.epoch) == (3, 2, 2)


def test_a_broken_entry_is_passed_over_and_told(log, store):
    log.append(entry(1))
    log.append(entry(2))
    data = bytearray(store.get(manifest_name(2)))
    data[20] ^= 1
    store.delete(manifest_name(2))
    store.put_new(manifest_name(2), bytes(data))
    found = log.newest()
    assert found.manifest == entry(1)
    assert [str(error).split()[0] for error in found.broken] == [manifest_name(2)]
    assert log.take_over(found).number == 3, "the broken one's number is taken"


def test_retiring_keeps_what_the_newest_entries_need(log, store):
    names = {epoch: part_name(epoch, 1, 1, "0") for epoch in range(1, 6)}
    for name in names.values():
        store.put_new(name, b"")
    log.append(entry(1, names[1]))
    log.append(entry(2, names[1], names[2]))
    log.append(entry(3, names[3]))
    log.append(entry(4, names[3], names[4]))
    log.retire(keep=2)
    assert log.numbers() == [3, 4]
    left = {each.name for each in store.list("parts")}
    assert left == {names[3], names[4], names[5]}, "the fifth belongs to an epoch under way"


def test_parts_of_an_attempt_that_was_taken_over_go_in_the_end(log, store):
    stray = part_name(2, 1, 1, "0")
    store.put_new(stray, b"")
    log.append(entry(1))
    taken = log.take_over(log.newest())
    log.append(msgspec.structs.replace(taken, number=3, epoch=2, kind="checkpoint"))
    assert stray in log.retire(keep=1)
