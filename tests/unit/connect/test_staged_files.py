"""Files that are published with epochs: what readers see, what another worker takes over, what is swept away."""

from __future__ import annotations

import json
import logging
import pickle

import pyarrow.parquet as pq
import pytest

from tailrace.clock import FakeClock
from tailrace.connect import errors, sinks
from tailrace.connect.spool import Spool
from tailrace.topology.contracts import SinkStart, delivery_of
from tailrace.topology.operators import TaskContext


def opened(sink, *, task=0, checkpoint="abc", attempt=1, execution=1, emit=print):
    mine = pickle.loads(pickle.dumps(sink))
    mine.open(
        TaskContext("op", task, 2, "q", logging.getLogger("test"), FakeClock(), emit, checkpoint, attempt, execution)
    )
    return mine


def values_in(folder):
    return sorted(json.loads(line) for path in folder.glob("part-*") for line in path.read_text().splitlines())


def hidden(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith("_")]


def test_lines_appear_with_their_epoch(tmp_path):
    sink = opened(sinks.json_lines(tmp_path))
    sink.write([1, 2])
    sink.prepare(1)()
    sink.write([3])
    assert values_in(tmp_path) == []
    sink.commit(1)
    sink.commit(1)
    assert values_in(tmp_path) == [1, 2]
    sink.prepare(2)
    sink.commit(2)
    sink.close()
    assert values_in(tmp_path) == [1, 2, 3]
    assert hidden(tmp_path) == []


def test_an_epoch_is_published_again_by_whoever_goes_on(tmp_path):
    first = opened(sinks.json_lines(tmp_path))
    first.write([1])
    first.prepare(1)
    state = pickle.loads(pickle.dumps(first.snapshot()))
    first.write([2])  # lost with its worker
    second = opened(sinks.json_lines(tmp_path), execution=2)
    second.restore(state)
    second.abort(2)
    first.commit(1)
    second.commit(1)
    assert values_in(tmp_path) == [1]
    assert hidden(tmp_path) == []


def test_a_driver_taken_for_dead_removes_nothing_of_its_successor(tmp_path):
    successor = opened(sinks.json_lines(tmp_path), attempt=2)
    successor.write([1])
    successor.prepare(4)
    opened(sinks.json_lines(tmp_path), attempt=1, execution=9).abort(1)
    opened(sinks.json_lines(tmp_path), checkpoint="def", attempt=9).abort(1)
    successor.commit(4)
    assert values_in(tmp_path) == [1]


def test_a_task_that_moves_hands_over_what_it_has_written(tmp_path):
    old = opened(sinks.json_lines(tmp_path))
    old.write([1])
    new = opened(sinks.json_lines(tmp_path))
    new.restore(old.snapshot())
    old.close()
    new.write([2])
    new.prepare(1)()
    new.commit(1)
    assert values_in(tmp_path) == [1, 2]


def test_what_was_staged_and_is_gone_is_an_error(tmp_path):
    sink = opened(sinks.json_lines(tmp_path))
    sink.write([1])
    make_durable = sink.prepare(1)
    (tmp_path / hidden(tmp_path)[0]).unlink()
    with pytest.raises(errors.OutputError, match="durable"):
        make_durable()
    with pytest.raises(errors.OutputError, match="neither"):
        sink.commit(1)


def test_a_query_that_goes_on_keeps_its_results(tmp_path):
    sink = opened(sinks.json_lines(tmp_path))
    sink.write([1])
    sink.prepare(1)
    sink.commit(1)
    for mode in ("error", "overwrite"):
        again = sinks.json_lines(tmp_path, mode=mode)
        again.preflight_durable()
        again.begin_from(SinkStart(durable=True, resumed=True))
    assert values_in(tmp_path) == [1]
    with pytest.raises(errors.OutputExistsError):
        sinks.json_lines(tmp_path).begin_from(SinkStart(durable=True))
    sinks.json_lines(tmp_path, mode="overwrite").begin_from(SinkStart(durable=True))
    assert values_in(tmp_path) == []


def test_kinds_of_delivery(tmp_path):
    assert delivery_of(sinks.json_lines(tmp_path), durable=True) == "transactional"
    assert delivery_of(sinks.json_lines(tmp_path), durable=False) == "at_least_once"
    assert delivery_of(sinks.json_lines(tmp_path, delivery="at_least_once"), durable=True) == "at_least_once"
    assert delivery_of(sinks.discard(), durable=True) == "idempotent"
    assert delivery_of(sinks.console(), durable=True) == "at_least_once"
    assert delivery_of(sinks.collect(), durable=True) == "transactional"
    with pytest.raises(errors.ConnectorOptionError, match="delivery"):
        sinks.json_lines(tmp_path, delivery="twice")


def test_parquet_appears_with_its_epoch(tmp_path):
    sink = opened(sinks.parquet(tmp_path, "id long, text string"))
    sink.write([{"id": 1, "text": "a"}])
    sink.write([(2, "b")])
    assert sink.prepare(1)() is None
    sink.write([(3, "c")])
    sink.commit(1)
    sink.close()
    (path,) = tmp_path.glob("part-*.parquet")
    assert pq.read_table(path).to_pylist() == [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}]


def test_parquet_refuses_rows_that_do_not_fit_and_results_of_others(tmp_path):
    sink = opened(sinks.parquet(tmp_path, "id long not null"))
    with pytest.raises(errors.SchemaError):
        sink.write([{"id": "x"}])
    sink.write([{"id": 1}])
    sink.prepare(1)
    sink.commit(1)
    with pytest.raises(errors.OutputExistsError, match="parquet"):
        sinks.parquet(tmp_path, "id long").preflight()


def rows_in(folder):
    spool = Spool(str(folder), "out")
    return [
        row["id"]
        for number in range(spool.entries())
        for batch in spool.read(spool.entry(number).ranges)
        for row in batch.to_pylist()
    ]


def test_rows_of_a_table_count_with_their_epoch_and_once(tmp_path):
    driver = sinks.table(tmp_path, "id long")
    driver.begin_from(SinkStart(durable=True))
    sent = []
    task = opened(driver, emit=sent.append)
    task.write([(1,), (2,)])
    task.write([(3,)])
    task.prepare(1)()
    state = pickle.loads(pickle.dumps(task.snapshot()))
    task.write([(4,)])
    assert sent == []
    task.commit(1)
    driver.receive(*sent)
    again = opened(driver, execution=2, emit=sent.append)
    again.restore(state)
    again.abort(2)
    again.commit(1)
    successor = sinks.table(tmp_path, "id long")
    successor.begin_from(SinkStart(durable=True, resumed=True))
    for each in (driver, successor):  # the one before was only taken for dead
        each.receive(sent[1])
    assert rows_in(tmp_path) == [1, 2, 3]
    again.write([(5,)])
    again.prepare(2)
    again.commit(2)
    for each in (successor, driver):
        each.receive(sent[2])
        each.finish(None)
    assert rows_in(tmp_path) == [1, 2, 3, 5]


def test_another_query_with_a_table_begins_its_own_epochs(tmp_path):
    for number in (1, 2):
        driver = sinks.table(tmp_path, "id long")
        driver.begin_from(SinkStart(durable=True))
        task = opened(driver, emit=driver.receive)
        task.write([(number,)])
        task.prepare(1)
        task.commit(1)
    assert rows_in(tmp_path) == [1, 2]
