"""Values as lines of JSON in a folder, one file per task, for results that other tools are to read.

Every batch reaches the operating system before ``write`` returns, so a killed worker loses nothing it has acknowledged.
A tuple that is replayed may be written twice. A worker that restarts appends to its own files; what an earlier query
left is looked at once, on the driver, before the query starts.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.topology.contracts import Sink

from ..errors import nearest
from .errors import ConnectorOptionError, OutputError, OutputExistsError
from .folders import check_writable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..topology.operators import TaskContext

TAIL_BYTES = 64 * 1024
MODES = ("error", "overwrite", "append")
#: The files that tasks write; nothing else in a folder is ever touched.
_PART = re.compile(r"part-\d{5,}\.jsonl")


class JsonLines(Sink):
    """See ``sinks.json_lines``."""

    label = "json_lines"

    def __init__(self, folder: str | os.PathLike[str], default: Callable[[Any], Any] | None, mode: str) -> None:
        if default is not None and not callable(default):
            raise ConnectorOptionError(
                f"default must be a function for values that JSON lacks, found {default!r}.", "Use for example str."
            )
        if mode not in MODES:
            raise ConnectorOptionError(
                f"mode must be one of {', '.join(MODES)}; found {mode!r}.", nearest(str(mode), MODES)
            )
        self.mode = mode
        self.folder = Path(folder).expanduser().absolute()
        self.default = default
        self._file: int | None = None
        self._encode: Callable[[list[Any]], bytes] | None = None

    def preflight(self) -> None:
        """Refuse a folder that cannot be written, or that has results already unless it was said what to do then."""
        check_writable(self.label, self.folder)
        if self.mode == "error" and (parts := [part for part in self._parts() if part.stat().st_size]):
            raise OutputExistsError(
                f"{self.folder} has results of an earlier query: {len(parts)} files such as {parts[0].name}. A query "
                "that is started again reads its input from the beginning, so they would be there twice.",
                'Choose another folder, or give json_lines mode="overwrite" to remove them first, or mode="append".',
            )

    def begin(self) -> None:
        """Look at the folder again, and remove what is to be overwritten."""
        self.preflight()
        try:
            for part in self._parts() if self.mode == "overwrite" else ():
                part.unlink()
        except OSError as error:
            raise OutputError(
                f"{error.filename} is to be overwritten and cannot be removed: {error.strerror}.",
                "See to its permissions, or choose another folder.",
            ) from None

    def _parts(self) -> list[Path]:
        """The files in the folder that queries have written."""
        if not self.folder.is_dir():
            return []
        return sorted(path for path in self.folder.iterdir() if _PART.fullmatch(path.name) and path.is_file())

    def open(self, ctx: TaskContext) -> None:
        """Open this task's file for appending; half a line left by a killed worker is removed, for it is replayed."""
        path = self.folder / f"part-{ctx.task:05d}.jsonl"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise OutputError(
                f"{path} cannot be opened for writing by a worker: {error.strerror}.",
                "Workers write files themselves: the folder must be writable on every node.",
            ) from None
        _cut_half_line(self._file)
        self._encode = msgspec.json.Encoder(enc_hook=self.default).encode_lines

    def write(self, values: list[Any]) -> None:
        """Append a batch."""
        if self._file is None or self._encode is None:
            raise OutputError(f"The file in {self.folder} is not open.", "Call open first.")
        try:
            left = memoryview(self._encode(values))
        except (TypeError, NotImplementedError, msgspec.MsgspecError) as error:
            raise OutputError(
                f"A value cannot be written as JSON: {error}.",
                "Map it to text, numbers, lists and dicts first, or give json_lines(folder, default=str).",
            ) from error
        while left:
            left = left[os.write(self._file, left) :]

    def close(self) -> None:
        """Have the disk take what was written and close the file."""
        if self._file is not None:
            os.fsync(self._file)
            os.close(self._file)
            self._file = None


def _cut_half_line(file: int) -> None:
    end = os.fstat(file).st_size
    at = end
    while at > 0:
        start = max(0, at - TAIL_BYTES)
        found = os.pread(file, at - start, start).rfind(b"\n")
        if found >= 0:
            at = start + found + 1
            break
        at = start
    if at < end:
        os.ftruncate(file, at)
