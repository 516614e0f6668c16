"""The lines of files as a source: one partition per file, or several byte ranges of a large one.

Workers open the files themselves, so each must be able to reach them under the same path. A record's offset is the byte
at which its line starts, which stays true over restarts as long as files only grow.
"""

from __future__ import annotations

import glob
import os
import re
from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from tailrace.topology.contracts import NO_RECORDS, Reader, Records, Source

from .errors import ConnectorOptionError, InputChangedError, NoInputError
from .text import LineSplitter, check_encoding, check_errors

if TYPE_CHECKING:
    from ..clock import Clock

BLOCK_BYTES = 128 * 1024
SPLIT_BYTES = 64 * 1024 * 1024
SPLITS_MAX = 10_000
POLL_NS = 10_000_000

# A partition is a path, with "#start-end" behind it if it is a part of the file; the last part has no end.
_PART = re.compile(r"(?P<path>.*)#(?P<start>\d+)-(?P<end>\d*)", re.DOTALL)


class Lines(Source[str]):
    """See ``sources.lines``."""

    label = "lines"

    def __init__(
        self, pattern: str | os.PathLike[str], *, follow: bool, encoding: str, errors: str, splits: int | None
    ) -> None:
        check_encoding(encoding)
        check_errors(errors)
        if splits is not None and (isinstance(splits, bool) or splits not in range(1, SPLITS_MAX + 1)):
            raise ConnectorOptionError(
                f"splits must be a whole number from 1 to {SPLITS_MAX:,}, found {splits!r}.",
                "Leave it out to have one split per 64 MiB.",
            )
        # Executors have working folders of their own, so a path must not depend on that of the driver.
        self.pattern = os.path.abspath(os.path.expanduser(os.fspath(pattern)))  # noqa: PTH100, PTH111 - may be a glob
        self.bounded = not follow
        self.encoding = encoding
        self.errors = errors
        self.splits = splits

    def partitions(self) -> list[str]:
        """List the files, each cut into byte ranges."""
        return [part for path in self._files() for part in _parts(path, self.splits)]

    def _files(self) -> list[str]:
        if os.path.isfile(self.pattern):  # noqa: PTH113 - a file whose name looks like a glob is still a file
            return [self.pattern]
        files = sorted(path for path in glob.glob(self.pattern, recursive=True) if os.path.isfile(path))  # noqa: PTH113, PTH207
        if files:
            return files
        if os.path.isdir(self.pattern):  # noqa: PTH112
            raise NoInputError(
                f"Lines are read from files, and {self.pattern!r} is a folder.",
                f"Use a pattern such as {os.path.join(self.pattern, '*.txt')!r}.",  # noqa: PTH118
            )
        raise NoInputError(
            f"No file matches {self.pattern!r}.", "Check the path; relative ones start at the folder of the driver."
        )

    def open(self, partition: str, offset: int, clock: Clock) -> Reader:
        """Open a byte range of a file."""
        match = _PART.fullmatch(partition)
        path, start, end = match.groups() if match else (partition, "0", "")
        follow = not self.bounded and not end
        first = max(int(start), offset)
        splitter = LineSplitter(path, self.encoding, max(0, first - 1), self.errors)
        return _LinesReader(path, first, int(end) if end else None, splitter, clock if follow else None)


def _parts(path: str, splits: int | None) -> list[str]:
    size_bytes = os.path.getsize(path)  # noqa: PTH202 - as text all the way
    if splits is None:  # at fixed places, so that the same parts come back when the file has grown
        starts = list(range(0, size_bytes, SPLIT_BYTES)) or [0]
    else:
        starts = sorted({size_bytes * index // splits for index in range(splits)})
    if starts == [0] and not _PART.fullmatch(path):
        return [path]
    ends = [str(start) for start in starts[1:]] + [""]
    return [f"{path}#{start}-{end}" for start, end in zip(starts, ends, strict=True)]


class _LinesReader(Reader):
    """Reads the lines that start in a byte range. With a clock it waits at the end of the file for more."""

    def __init__(self, path: str, start: int, end: int | None, splitter: LineSplitter, follow: Clock | None) -> None:
        try:
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115, PTH123 - closed by close()
        except OSError as error:
            raise NoInputError(
                f"{path!r} cannot be opened by a worker: {error.strerror}.",
                "Workers open files themselves: it must be readable under this path on every node.",
            ) from None
        # A range begins behind the first line end at or after start - 1: at a line that starts exactly there too.
        self._skipping = start > 0
        self._file.seek(splitter.base)
        self._splitter = splitter
        self._path = path
        self._end = end
        self._follow = follow
        self._poll_at_ns = 0
        self._lines: list[Any] = []
        self._offsets: list[int] = []
        self._next = 0
        self._done = False

    def read(self, max_records: int) -> Records:
        """Return lines that are there, at most those of one block."""
        if self._next >= len(self._lines) and not self._done:
            self._lines, self._offsets = self._fill()
            self._next = 0
        first, last = self._next, self._next + max_records
        if first >= len(self._lines):
            return NO_RECORDS
        self._next = last
        return Records(self._offsets[first:last], self._lines[first:last])

    def _fill(self) -> tuple[list[Any], list[int]]:
        block = self._file.read(BLOCK_BYTES)
        if not block and self._follow is not None:
            return self._pause(self._follow)
        if not block:
            self._done = True
            lines, offsets = self._splitter.finish()
        else:
            lines, offsets = self._splitter.feed(self._after_skipping(block))
        if self._end is not None and self._splitter.base >= self._end:
            self._done = True
            count = bisect_left(offsets, self._end)
            del lines[count:], offsets[count:]
        return lines, offsets

    def _after_skipping(self, block: bytes) -> bytes:
        if not self._skipping:
            return block
        cut = block.find(b"\n") + 1
        self._skipping = cut == 0
        skipped = cut or len(block)
        self._splitter.skip(skipped)
        return block[skipped:]

    def _pause(self, clock: Clock) -> tuple[list[Any], list[int]]:
        size_bytes, read_bytes = os.fstat(self._file.fileno()).st_size, self._file.tell()
        if size_bytes < read_bytes:
            raise InputChangedError(
                f"{self._path!r} was followed to byte {read_bytes:,} and has been cut to {size_bytes:,}.",
                "Follow files that only grow; rotate by renaming, and start a new query for the new file.",
            )
        self._poll_at_ns = clock.now_ns() + POLL_NS
        return [], []

    @property
    def finished(self) -> bool:
        """Whether the range has been read to its end."""
        return self._done and self._next >= len(self._lines)

    def wait_s(self) -> float:
        """Tell how long it is until a followed file is looked at again."""
        if self._follow is None or self._next < len(self._lines):
            return 0.0
        return max(0, self._poll_at_ns - self._follow.now_ns()) / 1e9

    def close(self) -> None:
        """Close the file."""
        self._file.close()
