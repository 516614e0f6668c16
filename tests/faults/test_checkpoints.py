"""What users get whose checkpoint is broken, another's, shared, or cannot be written: an error or an epoch, by name."""

from __future__ import annotations

import logging
import os
import resource
import shutil
import signal
import time
from typing import Any, NamedTuple

import pytest
from tests.queries import PATIENT, ended, ending, pids, until
from tests.unit.checkpoint.made import replace_object

import tailrace as tr
from tailrace import testing
from tailrace.checkpoint.errors import (
    CheckpointCorruptError,
    CheckpointError,
    CheckpointsFailedError,
    CheckpointVersionError,
    ForeignCheckpointError,
)
from tailrace.checkpoint.log import manifest_name
from tailrace.checkpoint.reader import CheckpointReader
from tailrace.checkpoint.stores import StoreAddressError, open_store
from tailrace.coordinator.query import Query

SETTINGS = tr.Settings(progress_s=0.1, **PATIENT)
COUNT, KEYS = 3000, 97


class Drawn(NamedTuple):
    flow: tr.Topology
    out: Any

    def exact(self):
        return sorted(self.out.values) == [(key, len(range(key, COUNT, KEYS))) for key in range(KEYS)]


def drawn(held_up=None, name="counted", sink=None):
    """How often each key has come, told at the end; slowly as long as a file is there."""

    def key_of(value):
        if held_up is not None and held_up.exists():
            time.sleep(0.01)
        return value % KEYS

    flow, out = tr.Topology(name), tr.sinks.collect()
    keys = flow.source(tr.sources.items(range(COUNT), partitions=2)).map(key_of)
    keys.key_by(lambda key: key).count(tasks=2, name="counts", emit="final").sink(sink or out, name="collect")
    return Drawn(flow, out)


def begin(flow, path, *, workers=2, settings=SETTINGS, **every):
    checkpoint = tr.Checkpoint(path, every_s=0.1, **every)
    return Query(flow, testing.ProcessHost(workers), tr.Policy(), settings, checkpoint)


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """The checkpoint of a query that was left in the midst of things, with several epochs."""
    path, held_up = tmp_path_factory.mktemp("left"), tmp_path_factory.mktemp("held") / "up"
    held_up.touch()
    slow = tr.Settings(progress_s=0.1, max_pending=16, batch_max=2, **PATIENT)
    with ending(begin(drawn(held_up).flow, path, settings=slow).start()) as query:
        until(lambda: (found := query._brain.checkpoints.durable) is not None and found.epoch >= 5, "epochs", query)
        query.stop(now=True)
    assert query._brain.checkpoints.durable.partitions[0].mark < COUNT
    return path


@pytest.fixture
def path(left, tmp_path):
    return shutil.copytree(left, tmp_path / "checkpoint")


def resumed(path, **every):
    """Resume to the end; tells whether the result is right."""
    found = drawn()
    with ending(begin(found.flow, path, **every).start()) as query:
        ended(query)
    return found.exact()


def newest_two(path):
    store = open_store(path)
    return store, *(entry.manifest for entry in CheckpointReader(store).entries()[:2])


def own_object(newest, before):
    return max(newest.objects - before.objects)


@pytest.mark.parametrize("harm", ["flipped", "cut", "empty", "missing"])
def test_a_broken_object_of_the_newest_epoch(path, caplog, harm):
    store, newest, before = newest_two(path)
    name = own_object(newest, before)
    replace_object(store, name, harm)
    with caplog.at_level(logging.WARNING, logger="tailrace"):
        assert resumed(path)
    assert name in caplog.text
    assert f"Epoch {before.epoch} is used instead" in caplog.text


@pytest.mark.parametrize("harm", ["flipped", "cut", "empty"])
def test_a_broken_manifest(path, caplog, harm):
    store, newest, before = newest_two(path)
    replace_object(store, manifest_name(newest.number), harm)
    with caplog.at_level(logging.WARNING, logger="tailrace"):
        assert resumed(path)
    assert manifest_name(newest.number) in caplog.text
    assert f"Epoch {before.epoch} is used instead" in caplog.text


def test_no_number_of_an_epoch_is_given_twice(path):
    store, newest, before = newest_two(path)
    replace_object(store, own_object(newest, before), "flipped")
    query = begin(drawn().flow, path)
    query.stop(now=True)
    taken = query._brain.checkpoints
    assert taken.durable.epoch == before.epoch
    assert taken.epoch >= newest.epoch


@pytest.mark.parametrize("what", ["objects", "manifests"])
def test_nothing_that_is_whole(path, what):
    store = open_store(path)
    for each in list(store.list("parts" if what == "objects" else "manifests")):
        replace_object(store, each.name, "flipped")
    with pytest.raises(CheckpointCorruptError, match="No epoch of the checkpoint is whole"):
        begin(drawn().flow, path)


class Publishing(tr.Sink):
    """A sink that publishes with epochs, as far as the check before the start can tell."""

    def write(self, value):
        pass

    def prepare(self, epoch):
        pass

    def commit(self, epoch):
        pass

    def abort(self, epoch):
        pass


def test_a_sink_that_has_published_what_came_after(path):
    store, newest, before = newest_two(path)
    name = own_object(newest, before)
    replace_object(store, name, "flipped")
    flow = drawn(sink=Publishing()).flow
    with pytest.raises(
        CheckpointCorruptError, match=rf"{name}.* Epoch {before.epoch} is whole, but 'collect'"
    ) as found:
        begin(flow, path)
    assert "accept_older=True" in found.value.hint
    query = begin(flow, path, accept_older=True)
    query.stop(now=True)
    assert query._brain.checkpoints.durable.epoch == before.epoch


@pytest.mark.parametrize("what", ["object", "manifest"])
def test_a_newer_format(path, what):
    store, newest, before = newest_two(path)
    name = own_object(newest, before) if what == "object" else manifest_name(newest.number)
    replace_object(store, name, "newer")
    with pytest.raises(CheckpointVersionError, match=f"{name} was written in format"):
        begin(drawn().flow, path)


def test_another_query(path):
    with pytest.raises(ForeignCheckpointError, match="is of query 'counted'; this one is 'another'"):
        begin(drawn(name="another").flow, path)


def test_a_path_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("text")
    with pytest.raises(StoreAddressError, match="Expected a folder to open"):
        begin(drawn().flow, tmp_path / "file")


def test_two_queries_that_begin_in_one_folder(tmp_path):
    """Neither has seen the other's entries: of the two one goes on, and is exact."""
    first, second = drawn(), drawn()
    queries = [begin(each.flow, tmp_path, workers=1) for each in (first, second)]
    with ending(queries[0].start()), ending(queries[1].start()):
        errors = []
        for query in queries:
            try:
                ended(query)
            except CheckpointError as error:  # noqa: PERF203 - two of them
                errors.append(error)
    lived = [each for each, query in zip((first, second), queries, strict=True) if query.exception() is None]
    assert len(errors) + len(lived) == 2
    assert errors
    assert all(each.exact() for each in lived)
    assert "another" in errors[0].message


@pytest.mark.chaos
def test_objects_that_break_while_the_query_runs(tmp_path):
    """Who has its state in memory goes on; a worker that has to load it says by name why it cannot."""
    path, held_up = tmp_path / "checkpoint", tmp_path / "up"
    held_up.touch()
    with ending(begin(drawn(held_up).flow, path, keep=1).start()) as query:
        until(lambda: query._brain.checkpoints.durable is not None, "an epoch", query)
        store = open_store(path)
        for name in sorted(query._brain.checkpoints.durable.objects):
            replace_object(store, name, "flipped")
        os.kill(pids(query)[query.workers_of("counts")[0]], signal.SIGKILL)
        with pytest.raises(CheckpointCorruptError, match=r"parts/.* cannot be used"):
            ended(query)


class Full(tr.KeyedOperator):
    """Counts in a process that may not write files of more than some bytes."""

    def open(self, ctx):
        super().open(ctx)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    def process(self, key, value, state):
        state.set((state.get() or 0) + 1)


def test_no_room(tmp_path, caplog):
    flow = tr.Topology("full")
    numbers = flow.source(tr.sources.rate(500)).key_by(lambda value: value % 50)
    numbers.process(Full(), tasks=1, name="counts").sink(tr.sinks.discard())
    caplog.set_level(logging.WARNING, logger="tailrace")
    query = begin(flow, tmp_path, workers=1, tolerated_failures=2)
    with ending(query.start()), pytest.raises(CheckpointsFailedError) as found:
        ended(query)
    assert "3 checkpoints in a row failed" in found.value.message
    assert "Expected room to write" in found.value.message
    assert "Free some room" in found.value.hint
    assert caplog.text.count("checkpoint 1 failed: Expected room") == 1
    assert not CheckpointReader(open_store(tmp_path)).entries()
