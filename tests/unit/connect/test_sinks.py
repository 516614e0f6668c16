"""Sinks as a task uses them, and their other half on the driver."""

from __future__ import annotations

import copy
import json
import logging
import pickle

import pytest

from tailrace.clock import FakeClock
from tailrace.connect import errors, sinks
from tailrace.topology.errors import NotCallableError
from tailrace.topology.operators import DeadLetter, TaskContext


def run(sink, *batches, task=0):
    """Write batches as one task does, and hand what it sends to the driver's object."""
    sent = []
    ctx = TaskContext("op", task, 2, "query", logging.getLogger("test"), FakeClock(), sent.append)
    mine = pickle.loads(pickle.dumps(sink))
    mine.open(ctx)
    for batch in batches:
        mine.write(batch)
    mine.close()
    for values in sent:
        sink.receive(values)


def test_console_prints_at_the_driver(capsys):
    run(sinks.console(), [("a", 1)], ["ü", None])
    assert capsys.readouterr().out == "('a', 1)\nü\nNone\n"


def test_console_stops_at_its_limit_over_all_tasks(capsys):
    sink = sinks.console(limit=3)
    run(sink, [1, 2], task=0)
    run(sink, [3, 4, 5], [6], task=1)
    assert capsys.readouterr().out == "1\n2\n3\n"


def test_console_shows_what_cannot_travel(capsys):
    class Local:
        def __str__(self):
            return "only here"

    run(sinks.console(), [Local()])
    assert capsys.readouterr().out == "only here\n"


def test_collect_gathers_what_all_tasks_wrote():
    sink = sinks.collect()
    run(sink, [1, 2], [3], task=0)
    run(sink, [4], task=1)
    assert sink.values == [1, 2, 3, 4]


def test_collect_leaves_what_it_holds_at_the_driver():
    sink = sinks.collect()
    run(sink, [1])
    assert copy.deepcopy(sink).values == []
    assert sink.values == [1]


def test_collect_refuses_more_than_its_limit():
    sink = sinks.collect(limit=2)
    run(sink, [1, 2])
    with pytest.raises(errors.CollectLimitError, match="up to 2 values"):
        run(sink, [3])
    assert sink.values == [1, 2]


@pytest.mark.parametrize("limit", [0, -1, True, 1.5])
def test_limits_out_of_range(limit):
    for make in (sinks.console, sinks.collect):
        with pytest.raises(errors.ConnectorOptionError, match="limit must be"):
            make(limit)


def test_json_lines_writes_a_file_per_task(tmp_path):
    folder = tmp_path / "deep" / "out"
    sink = sinks.json_lines(folder)
    run(sink, [("a", 1), {"k": "ü"}], [None], task=0)
    run(sink, [2.5], task=11)
    assert (folder / "part-00000.jsonl").read_text(encoding="utf-8") == '["a",1]\n{"k":"ü"}\nnull\n'
    assert (folder / "part-00011.jsonl").read_text() == "2.5\n"


def test_json_lines_is_in_the_file_before_write_returns(tmp_path):
    sink = copy.deepcopy(sinks.json_lines(tmp_path))
    sink.open(TaskContext("op", 0, 1, "query", logging.getLogger("test"), FakeClock(), print))
    sink.write([1, 2])
    assert (tmp_path / "part-00000.jsonl").read_text() == "1\n2\n"
    sink.close()


@pytest.mark.parametrize(
    ("before", "after"),
    [('1\n{"ha', "1\n3\n"), ("1\n", "1\n3\n"), ("half", "3\n"), ("1\n" + "x" * 200_000, "1\n3\n"), ("", "3\n")],
)
def test_json_lines_appends_and_removes_half_a_line(tmp_path, before, after):
    path = tmp_path / "part-00000.jsonl"
    path.write_text(before)
    run(sinks.json_lines(tmp_path), [3])
    assert path.read_text() == after


def parts_of(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_json_lines_refuses_what_an_earlier_query_left(tmp_path):
    (tmp_path / "part-00003.jsonl").write_text("1\n")
    sink = sinks.json_lines(tmp_path)
    for look in (sink.preflight, sink.begin):
        with pytest.raises(errors.OutputExistsError, match=r"1 files such as part-00003.jsonl"):
            look()
    assert parts_of(tmp_path) == {"part-00003.jsonl": "1\n"}


def test_json_lines_minds_neither_empty_parts_nor_other_files(tmp_path):
    (tmp_path / "part-00000.jsonl").touch()
    (tmp_path / "notes.jsonl").write_text("mine\n")
    sinks.json_lines(tmp_path).begin()
    sinks.json_lines(tmp_path / "new" / "folder").begin()
    assert parts_of(tmp_path) == {"part-00000.jsonl": "", "notes.jsonl": "mine\n"}


def test_json_lines_overwrites_what_it_wrote_and_nothing_else(tmp_path):
    run(sinks.json_lines(tmp_path), [1], task=0)
    run(sinks.json_lines(tmp_path), [2], task=7)
    (tmp_path / "part-00001.jsonl.gz").write_text("theirs")
    (tmp_path / "part-x.jsonl").write_text("theirs")
    (tmp_path / "part-00009.jsonl").mkdir()
    sink = sinks.json_lines(tmp_path, mode="overwrite")
    sink.preflight()
    assert (tmp_path / "part-00007.jsonl").read_text() == "2\n"  # only looked at so far
    sink.begin()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "part-00001.jsonl.gz",
        "part-00009.jsonl",
        "part-x.jsonl",
    ]


def test_json_lines_appends_where_it_is_told_to(tmp_path):
    for number in (1, 2):
        sink = sinks.json_lines(tmp_path, mode="append")
        sink.begin()
        run(sink, [number])
    assert parts_of(tmp_path) == {"part-00000.jsonl": "1\n2\n"}
    with pytest.raises(errors.ConnectorOptionError, match="mode must be one of error, overwrite, append"):
        sinks.json_lines(tmp_path, mode="replace")


def test_json_lines_finds_at_the_driver_that_it_cannot_write(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(errors.OutputError, match="is no folder"):
        sinks.json_lines(tmp_path / "file" / "out").preflight()


def test_json_lines_names_what_json_lacks(tmp_path):
    with pytest.raises(errors.OutputError, match=r"cannot be written as JSON.*complex"):
        run(sinks.json_lines(tmp_path), [1j])
    run(sinks.json_lines(tmp_path, default=str), [1j])
    assert (tmp_path / "part-00000.jsonl").read_text() == '"1j"\n'
    with pytest.raises(errors.ConnectorOptionError, match="default must be a function"):
        sinks.json_lines(tmp_path, default="str")


def test_json_lines_takes_dead_letters(tmp_path):
    run(sinks.json_lines(tmp_path), [DeadLetter("parse", 1, "x", "ValueError: no", "...")])
    assert json.loads((tmp_path / "part-00000.jsonl").read_text())["operator"] == "parse"


def test_json_lines_names_a_folder_it_cannot_make(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.OutputError, match="cannot be opened for writing by a worker"):
        run(sinks.json_lines(tmp_path / "file" / "out"), [1])


seen = []


def test_function_is_called_with_each_value():
    seen.clear()
    run(sinks.function(seen_append), [1, 2], [3])
    assert seen == [1, 2, 3]


def seen_append(value):
    seen.append(value)


def test_function_must_take_one_value():
    with pytest.raises(NotCallableError, match="needs a function"):
        sinks.function(3)
    with pytest.raises(NotCallableError, match=r"will call <lambda>\(value\)"):
        sinks.function(lambda: None)


def test_discard_takes_anything():
    sink = sinks.discard()
    run(sink, [object], [])
    assert sink.idempotent
