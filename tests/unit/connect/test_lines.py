"""Lines of files: what is read, at which offsets, from where after a restart, and what is refused."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import examples
from tests.unit.connect.readers import read_all

from tailrace.clock import FakeClock
from tailrace.connect import errors, lines, sources, text


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(lines, "BLOCK_BYTES", 5)


def expected(data: bytes):
    """List the lines of a text with their offsets, the slow and obvious way."""
    found, at = [], 0
    for line in data.split(b"\n"):
        if at < len(data):
            found.append((at, line.decode().removesuffix("\r")))
        at += len(line) + 1
    return found


def drain(reader):
    while not reader.finished:
        reader.read(10)


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"a", b"a\n", b"a\n\nb", b"\n\n\n", "grün\nété\r\n€\n".encode(), b"a\rb\r\nc", b"x" * 300 + b"\ny\n"],
)
@pytest.mark.parametrize("block_bytes", [1, 5, 131_072])
def test_lines_and_offsets(tmp_path, monkeypatch, data, block_bytes):
    monkeypatch.setattr(lines, "BLOCK_BYTES", block_bytes)
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    source = sources.lines(path)
    assert source.partitions() == [str(path)]
    assert read_all(source, str(path)) == expected(data)


@examples(60)
@given(
    data=st.lists(st.text(alphabet="ab€ \r", max_size=9), max_size=12),
    splits=st.integers(1, 9),
    ends_in_newline=st.booleans(),
)
def test_splits_give_every_line_once_and_any_offset_resumes(tmp_path_factory, data, splits, ends_in_newline):
    content = "\n".join(data).encode() + (b"\n" if ends_in_newline else b"")
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes(content)
    source = sources.lines(path, splits=splits)
    parts = source.partitions()
    assert [pair for part in parts for pair in read_all(source, part)] == expected(content)
    for part in parts:
        whole = read_all(source, part)
        for offset in range(len(content) + 2):
            assert read_all(source, part, offset) == [pair for pair in whole if pair[0] >= offset]


def test_large_files_are_split_at_fixed_places(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "SPLIT_BYTES", 10)
    path = tmp_path / "a.txt"
    path.write_bytes(b"0123456\n" * 3)
    source = sources.lines(path)
    assert [part.removeprefix(str(path)) for part in source.partitions()] == ["#0-10", "#10-20", "#20-"]
    assert [len(read_all(source, part)) for part in source.partitions()] == [2, 1, 0]
    with path.open("ab") as file:
        file.write(b"0123456\n")
    assert source.partitions()[:2] == [f"{path}#0-10", f"{path}#10-20"]


def test_a_glob_finds_files_sorted_and_no_folders(tmp_path):
    for name in ("b.txt", "a.txt", "c.log", "deep/d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "folder.txt").mkdir()
    flat = sources.lines(tmp_path / "*.txt").partitions()
    assert flat == [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]
    assert str(tmp_path / "deep" / "d.txt") in sources.lines(tmp_path / "**" / "*.txt").partitions()


@pytest.mark.parametrize("name", ["odd[1]*.txt", "part#0-3", "part#7-"])
def test_names_that_look_like_patterns_or_parts(tmp_path, name):
    path = tmp_path / name
    path.write_text("a\nb\n")
    source = sources.lines(path)
    assert [read_all(source, part) for part in source.partitions()] == [[(0, "a"), (2, "b")]]


def test_relative_paths_are_those_of_the_driver(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("here")
    monkeypatch.chdir(tmp_path)
    source = sources.lines("a.txt")
    monkeypatch.chdir("/")
    assert source.partitions() == [str(tmp_path / "a.txt")]


def test_a_followed_file_gives_lines_as_they_are_completed(tmp_path):
    path = tmp_path / "a.log"
    path.write_text("one\ntw")
    source = sources.lines(path, follow=True)
    assert not source.bounded
    clock = FakeClock()
    reader = source.open(str(path), 0, clock)
    assert reader.wait_s() == 0
    assert reader.read(10) == ([0], ["one"], None)
    assert reader.read(10).values == []
    assert reader.wait_s() == pytest.approx(0.01)
    with path.open("a") as file:
        file.write("o\nthree\nfo")
    clock.advance(10_000_000)
    assert reader.wait_s() == 0
    assert reader.read(1) == ([4], ["two"], None)
    assert reader.wait_s() == 0
    assert reader.read(1) == ([8], ["three"], None)
    assert reader.read(1).values == []
    assert not reader.finished
    reader.close()


def test_a_followed_file_that_is_cut_is_an_error(tmp_path):
    path = tmp_path / "a.log"
    path.write_text("one\ntwo\n")
    reader = sources.lines(path, follow=True).open(str(path), 0, FakeClock())
    reader.read(10)
    path.write_text("")
    with pytest.raises(errors.InputChangedError, match="byte 8 and has been cut to 0"):
        reader.read(10)
    reader.close()


def test_only_the_last_part_of_a_followed_file_is_open_ended(tmp_path):
    path = tmp_path / "a.log"
    path.write_text("one\ntwo\nthree\n")
    source = sources.lines(path, follow=True, splits=2)
    first, last = source.partitions()
    assert [value for _, value in read_all(source, first)] == ["one", "two"]
    reader = source.open(last, 0, FakeClock())
    assert reader.read(10).values == ["three"]
    assert reader.read(10).values == []
    assert not reader.finished
    reader.close()


def test_nothing_to_read(tmp_path):
    with pytest.raises(errors.NoInputError, match="No file matches"):
        sources.lines(tmp_path / "*.txt").partitions()
    with pytest.raises(errors.NoInputError, match="is a folder") as caught:
        sources.lines(tmp_path).partitions()
    assert "*.txt" in caught.value.hint


def test_a_file_that_is_not_there_for_a_worker(tmp_path):
    with pytest.raises(errors.NoInputError, match="cannot be opened by a worker: No such file"):
        sources.lines(tmp_path / "a").open(str(tmp_path / "a"), 0, FakeClock())


@pytest.mark.usefixtures("small_blocks")
def test_bytes_that_are_no_text_are_named_by_place(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"fine\nal\xffas\n")
    reader = sources.lines(path).open(str(path), 0, FakeClock())
    assert reader.read(10).values == ["fine"]
    found = []
    while not found:
        found = reader.read(10).values
    (bad,) = found
    assert bad.raw == b"al\xffas"
    assert isinstance(bad.error, errors.InputEncodingError)
    assert "byte 7 is 0xff" in bad.error.message
    reader.close()
    for how, line in (("replace", "al\ufffdas"), ("ignore", "alas")):
        assert [value for _, value in read_all(sources.lines(path, errors=how), str(path))] == ["fine", line]
    with pytest.raises(errors.ConnectorOptionError, match="errors must be one of strict, replace, ignore"):
        sources.lines(path, errors="skip")
    assert [value for _, value in read_all(sources.lines(path, encoding="latin-1"), str(path))] == ["fine", "alÿas"]


@pytest.mark.usefixtures("small_blocks")
def test_a_split_inside_a_character_is_no_wrong_text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("€€€€€\nend\n", encoding="utf-8")
    source = sources.lines(path, splits=5)
    assert [value for part in source.partitions() for _, value in read_all(source, part)] == ["€€€€€", "end"]


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "LINE_BYTES_MAX", 100)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 50)
    path = tmp_path / "a.bin"
    path.write_bytes(b"ok\n" + b"\0" * 500)
    reader = sources.lines(path).open(str(path), 0, FakeClock())
    with pytest.raises(errors.LineTooLongError, match="at byte 3 of"):
        drain(reader)
    reader.close()


@pytest.mark.parametrize(("encoding", "text_"), [("utf-9", "that Python knows"), ("utf-16", "single-byte line ends")])
def test_encodings_that_cannot_be_cut_into_lines(encoding, text_):
    with pytest.raises(errors.ConnectorOptionError, match=text_):
        sources.lines("a", encoding=encoding)


@pytest.mark.parametrize("splits", [0, -1, True, 1.5, 10_001])
def test_numbers_of_splits(splits):
    with pytest.raises(errors.ConnectorOptionError, match="splits must be"):
        sources.lines("a", splits=splits)


def test_a_source_travels(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a\n")
    source = pickle.loads(pickle.dumps(sources.lines(path)))
    assert read_all(source, str(path)) == [(0, "a")]
