"""What a query can begin from: changes that are meant are allowed one by one, everything else is refused by name."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import tailrace as tr
from tailrace.checkpoint import sealing
from tailrace.checkpoint.errors import (
    CheckpointCorruptError,
    CheckpointNeededError,
    CheckpointVersionError,
    ForeignCheckpointError,
    NotDividedError,
    SavepointConflictError,
    SavepointFailedError,
    SavepointMissingError,
    TopologyChangedError,
)
from tailrace.checkpoint.log import ManifestLog, manifest_name
from tailrace.checkpoint.manifest import write_manifest
from tailrace.checkpoint.settings import Checkpoint
from tailrace.checkpoint.stores import open_store
from tailrace.checkpoint.stores.memory import MemoryStore
from tailrace.config import Settings
from tailrace.coordinator.resumption import check_restore
from tailrace.errors import ConfigError
from tailrace.testing.inprocess import InProcess

WORDS = ["a", "b", "a", "c", "a", "b"] * 5


class Seen(tr.Operator):
    """Remembers what it saw, and cannot be divided."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def process(self, value: Any) -> Any:
        self.seen.append(value)
        return [value]


def flow_of(tasks=2, *, name="words", counts="counts", partitions=2, seen="seen", extra=False, verb="count"):
    flow, out = tr.Topology(name), tr.sinks.collect()
    stream = flow.source(tr.sources.items(WORDS, partitions=partitions), name="items").map(_itself, tasks=1)
    if seen:
        stream = stream.shuffle().process(Seen(), tasks=tasks if seen == "many" else 1, name="seen")
    keyed = stream.key_by(_itself)
    if verb == "count":
        made = keyed.count(tasks=tasks, name=counts)
    else:
        made = keyed.aggregate(_none, _add, tasks=tasks, name=counts)
    if extra:
        made = made.key_by(_first).count(tasks=1, name="more")
    made.sink(out, name="out")
    return flow, out


def drained(path, flow, *, turns=40, drained=True, settings=None):
    """Make a savepoint of a run in process, of its beginning mostly."""
    with InProcess(
        flow, settings=settings or Settings(max_pending=2, batch_max=1), store=MemoryStore(),
        checkpoint=Checkpoint("memory", every_s=0.001),
    ) as query:  # fmt: skip
        query.turns(turns)
        request = query.ask_savepoint(open_store(path), drained=drained)
        for _ in range(2000):
            query.turns(1)
            if request.over:
                break
        assert request.written is not None
        return query.values()


def resumed(path, flow, *, store=None, settings=None, **options):
    restore = tr.Savepoint(path, **options)
    with InProcess(flow, store=store or MemoryStore(), restore=restore, settings=settings) as query:
        return query.finish().values()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "savepoint"


def counts_of(pairs):
    return {key: max(number for each, number in pairs if each == key) for key, _ in pairs}


TOTAL = {word: WORDS.count(word) for word in "abc"}


@pytest.mark.parametrize("tasks", [1, 2, 3])
def test_other_task_counts_go_on_exactly(path, tasks):
    before = drained(path, flow_of()[0])
    assert 0 < len(before) < len(WORDS)
    after = resumed(path, flow_of(tasks)[0])
    assert len(before) + len(after) == len(WORDS)
    assert counts_of(before + after) == TOTAL


def test_with_tuples_in_flight_only_the_same_topology_goes_on(path):
    before = drained(path, flow_of()[0], drained=False)
    with pytest.raises(TopologyChangedError, match=r"in flight.*counts") as caught:
        resumed(path, flow_of(3)[0])
    assert "query.stop(savepoint=PATH)" in caught.value.hint
    assert counts_of(before + resumed(path, flow_of()[0])) == TOTAL


def test_everything_that_changed_is_listed_at_once_with_the_way_to_allow_it(path):
    drained(path, flow_of()[0])
    flow, _ = flow_of(counts="renamed", seen="", extra=True)
    with pytest.raises(TopologyChangedError) as caught:
        resumed(path, flow)
    for what in ("'counts' had state and is gone", "'seen' had state", "'renamed' is new", "'more' is new"):
        assert what in caught.value.message
    for way in ("dropped=['counts']", "new=['more']"):
        assert way in caught.value.hint
    after = resumed(path, flow, dropped=["counts", "seen"], new=["renamed", "more"])
    assert max(number for _, number in after) < TOTAL["a"]


def test_another_verb_needs_a_migration(path):
    before = drained(path, flow_of()[0])
    flow, _ = flow_of(verb="aggregate")
    with pytest.raises(TopologyChangedError, match="'counts' was a count and is a aggregate") as caught:
        resumed(path, flow)
    assert "migrate={'counts': fn}" in caught.value.hint
    after = resumed(path, flow, migrate={"counts": _as_list})
    assert counts_of(before + [(key, len(held)) for key, held in after]) == TOTAL


def test_a_migration_that_fails_says_so(path):
    drained(path, flow_of()[0])
    with pytest.raises(SavepointFailedError, match="migrate has for 'counts' failed: ZeroDivisionError"):
        resumed(path, flow_of()[0], migrate={"counts": lambda key, state: state / 0})


def test_state_of_no_key_is_not_divided_by_guess(path):
    drained(path, flow_of(seen="many")[0])
    with pytest.raises(NotDividedError, match=r"'seen' \(2 tasks before, 3 now\)"):
        resumed(path, flow_of(3, seen="many")[0])


def test_state_of_no_key_can_be_migrated(path):
    drained(path, flow_of()[0])
    told: list[Any] = []

    def forget(state: Any) -> Any:
        told.append(state["seen"])
        return {"seen": []}

    resumed(path, flow_of()[0], migrate={"seen": forget})
    assert set(told[0]) <= set(WORDS)


def test_other_key_groups_move_the_keys(path):
    before = drained(path, flow_of(3)[0])
    settings = Settings(key_groups=7)
    assert counts_of(before + resumed(path, flow_of(3)[0], settings=settings)) == TOTAL
    running = path.with_name("running")
    drained(running, flow_of(3)[0], drained=False)
    with pytest.raises(TopologyChangedError, match="key_groups was 1024 and is 7"):
        resumed(running, flow_of(3)[0], settings=settings)


def test_a_divided_input_keeps_its_partitions(path):
    drained(path, flow_of()[0])
    with pytest.raises(TopologyChangedError, match="'items' had 2 partitions and has 3"):
        resumed(path, flow_of(partitions=3)[0])


def test_files_may_come_and_only_go_where_that_is_meant(path, tmp_path):
    def flow():
        flow, out = tr.Topology("files"), tr.sinks.collect()
        lines = flow.source(tr.sources.lines(tmp_path / "in*.txt"), name="lines")
        lines.key_by(_itself).count(tasks=2, name="counts").sink(out)
        return flow

    one, two, three = (tmp_path / f"in{number}.txt" for number in range(3))
    one.write_text("a\na\n" * 20)
    two.write_text("b\n")
    before = drained(path, flow())
    three.write_text("c\na\n")
    assert counts_of(before + resumed(path, flow())) == {"a": 41, "b": 1, "c": 1}
    two.unlink()
    with pytest.raises(TopologyChangedError, match=r"partitions that are gone: .*in1\.txt"):
        resumed(path, flow())
    resumed(path, flow(), dropped_partitions=[str(two)])


def test_another_query_is_refused_unless_it_was_renamed(path):
    drained(path, flow_of()[0])
    with pytest.raises(ForeignCheckpointError, match="'words'") as caught:
        resumed(path, flow_of(name="other")[0])
    assert "query='words'" in caught.value.hint
    assert resumed(path, flow_of(name="other")[0], query="words")


@pytest.mark.parametrize("what", ["new", "dropped", "migrate", "dropped_partitions"])
def test_a_change_of_something_unknown_is_a_mistake(path, what):
    drained(path, flow_of()[0])
    with pytest.raises(ConfigError, match="'count'"):
        resumed(path, flow_of()[0], **{what: {"count": _as_list} if what == "migrate" else ["count"]})


def test_a_second_start_goes_on_from_the_checkpoint_and_another_history_is_refused(path):
    drained(path, flow_of()[0])
    store = MemoryStore()
    first = resumed(path, flow_of(3)[0], store=store)
    assert first
    assert sorted(resumed(path, flow_of(3)[0], store=store)) == sorted(first)  # what it had, and nothing more
    other = path.with_name("other")
    drained(other, flow_of()[0], turns=60)
    with pytest.raises(SavepointConflictError, match="history of its own"):
        resumed(other, flow_of(3)[0], store=store)


def test_nothing_is_there(tmp_path):
    with pytest.raises(SavepointMissingError, match="looked for"):
        resumed(tmp_path / "nowhere", flow_of()[0])
    (tmp_path / "empty").mkdir()
    with pytest.raises(SavepointMissingError, match="there is none"):
        resumed(tmp_path / "empty", flow_of()[0])
    with pytest.raises(CheckpointNeededError, match="into a checkpoint"):
        check_restore(None, tr.Savepoint("somewhere"))


@pytest.mark.parametrize("tasks", [2, 3])
@pytest.mark.parametrize("harm", ["flipped", "cut off", "gone"])
def test_an_object_that_is_not_whole_is_named_and_nothing_begins(path, harm, tasks):
    drained(path, flow_of()[0])
    part = min((path / "parts").iterdir())
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    if harm == "gone":
        part.unlink()
    else:
        part.write_bytes(data if harm == "flipped" else data[:-5])
    store = MemoryStore()
    with pytest.raises(CheckpointCorruptError, match=part.name):
        resumed(path, flow_of(tasks)[0], store=store)
    assert ManifestLog(store).newest().number == 0


def test_a_newer_format_is_refused(path):
    drained(path, flow_of()[0])
    entry = path / manifest_name(1)
    data = bytearray(entry.read_bytes())
    data[4:6] = (sealing.FORMAT_VERSION + 1).to_bytes(2, "little")
    entry.write_bytes(data)
    with pytest.raises(CheckpointVersionError):
        resumed(path, flow_of()[0])


def test_what_says_it_was_drained_and_was_not_is_refused(path):
    drained(path, flow_of()[0], drained=False)
    entry = path / manifest_name(1)
    manifest = ManifestLog(open_store(path)).read(1)
    entry.unlink()
    entry.write_bytes(write_manifest(msgspec.structs.replace(manifest, drained=True)))
    with pytest.raises(CheckpointCorruptError, match="counts as drained"):
        resumed(path, flow_of(3)[0])


def _itself(value):
    return value


def _first(pair):
    return pair[0]


def _none():
    return []


def _add(held, value):
    return [*held, value]


def _as_list(key, number):
    return [key] * number
