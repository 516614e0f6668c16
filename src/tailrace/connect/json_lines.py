"""Values as lines of JSON in a folder, for results that other tools are to read.

Exactly once, the default of queries with a checkpoint: a file per task and epoch that appears when the epoch is
durable. At least once: a file per task, and every batch reaches the operating system before ``write`` returns, so a
killed worker loses nothing it has acknowledged; a tuple that is replayed may be written twice, and a worker that
restarts appends to its own files. What an earlier query left is looked at on the driver, when a query starts.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.topology.contracts import Sink

from ..errors import nearest
from .errors import ConnectorOptionError, OutputError, OutputExistsError
from .folders import check_writable
from .staged_files import StagedFiles, is_published, is_staged

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..topology.contracts import Delivery, SinkStart
    from ..topology.operators import TaskContext

TAIL_BYTES = 64 * 1024
MODES = ("error", "overwrite", "append")
DELIVERIES = ("exactly_once", "at_least_once")
_SUFFIX = ".jsonl"


class JsonLines(Sink):
    """See ``sinks.json_lines``."""

    label = "json_lines"
    atomic = True

    def __init__(
        self,
        folder: str | os.PathLike[str],
        default: Callable[[Any], Any] | None,
        mode: str,
        delivery: str | None = None,
    ) -> None:
        if default is not None and not callable(default):
            raise ConnectorOptionError(
                f"default must be a function for values that JSON lacks, found {default!r}.", "Use for example str."
            )
        check_mode(mode)
        if delivery not in {None, *DELIVERIES}:
            raise ConnectorOptionError(
                f"delivery must be one of {', '.join(DELIVERIES)}; found {delivery!r}.",
                "Leave it out for exactly once with a checkpoint, and at least once without.",
            )
        self.mode = mode
        self.folder = Path(folder).expanduser().absolute()
        self.default = default
        self._delivery = delivery
        self._file: int | None = None
        self._size = 0
        #: What is written and not published; None where every batch counts at once.
        self._staged: StagedFiles | None = None
        self._encode: Callable[[list[Any]], bytes] | None = None

    def delivery(self, *, durable: bool) -> Delivery:
        """Whether lines appear with the epochs of a checkpoint, or at the end without one; or at once."""
        exactly = durable if self._delivery is None else self._delivery == "exactly_once"
        return "transactional" if exactly else "at_least_once"

    # -- at the driver -------------------------------------------------------------------------------------------

    def preflight(self) -> None:
        """Refuse a folder that cannot be written, or that has results already unless it was said what to do then."""
        check_writable(self.label, self.folder)
        check_empty(self.label, self.folder, _SUFFIX, self.mode)

    def preflight_durable(self) -> None:
        """Refuse a folder that cannot be written; whose results are in it is known when the checkpoint was read."""
        check_writable(self.label, self.folder)

    def begin_from(self, start: SinkStart) -> None:
        """Look at the folder again; results of the query's own earlier starts stay."""
        if start.resumed:
            check_writable(self.label, self.folder)
        else:
            self.begin()

    def begin(self) -> None:
        """Look at the folder again, and remove what is to be overwritten."""
        self.preflight()
        if self.mode == "overwrite":
            remove_results(self.folder, _SUFFIX)

    # -- in the tasks --------------------------------------------------------------------------------------------

    def open(self, ctx: TaskContext) -> None:
        """Get ready to write files of this task."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _not_writable(self.folder, error) from None
        if self.delivery(durable=bool(ctx.checkpoint)) == "transactional":
            self._staged = StagedFiles(self.folder, _SUFFIX, ctx)
        else:
            self._open(self.folder / f"part-{ctx.task:05d}{_SUFFIX}")
        self._encode = msgspec.json.Encoder(enc_hook=self.default).encode_lines

    def _open(self, path: Path) -> int:
        """Open a file for appending; half a line left by a killed worker is removed, for it is replayed."""
        try:
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise _not_writable(path, error) from None
        _cut_half_line(self._file)
        self._size = os.fstat(self._file).st_size
        return self._file

    def write(self, values: list[Any]) -> None:
        """Append a batch, or nothing of it."""
        if self._encode is None:
            raise OutputError(f"The file in {self.folder} is not open.", "Call open first.")
        try:
            left = memoryview(self._encode(values))
        except (TypeError, NotImplementedError, msgspec.MsgspecError) as error:
            raise OutputError(
                f"A value cannot be written as JSON: {error}.",
                "Map it to text, numbers, lists and dicts first, or give json_lines(folder, default=str).",
            ) from error
        file = self._file
        if file is None:
            if self._staged is None:
                raise OutputError(f"The file in {self.folder} is closed.", "Write before close.")
            file = self._open(self._staged.next_path())
        try:
            while left:
                left = left[os.write(file, left) :]
        except OSError:
            os.ftruncate(file, self._size)
            raise
        self._size = os.lseek(file, 0, os.SEEK_END)

    def prepare(self, epoch: int) -> Callable[[], object] | None:
        """Begin another file; those so far belong to the epoch."""
        self._end_file()
        return None if self._staged is None else self._staged.prepare(epoch)

    def commit(self, epoch: int) -> None:
        """Let the epoch's files appear."""
        if self._staged is not None:
            self._staged.commit(epoch)

    def abort(self, epoch: int) -> None:
        """Remove what earlier executions left of the epoch and later ones."""
        if self._staged is not None:
            self._staged.abort(epoch)

    def snapshot(self) -> Any:
        """The names of files that were not published; another worker goes on behind them."""
        if self._staged is None:
            return None
        self._end_file()
        return self._staged.snapshot()

    def restore(self, state: Any) -> None:
        """Go on behind what another worker has written."""
        if self._staged is not None and state is not None:
            self._staged.restore(state)

    def close(self) -> None:
        """Close the file; the disk takes what counts without having been published."""
        if self._file is not None and self._staged is None:
            os.fsync(self._file)
        self._end_file()

    def _end_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def check_mode(mode: str) -> None:
    """Refuse what is no way to treat results of an earlier query."""
    if mode not in MODES:
        raise ConnectorOptionError(
            f"mode must be one of {', '.join(MODES)}; found {mode!r}.", nearest(str(mode), MODES)
        )


def check_empty(label: str, folder: Path, suffix: str, mode: str) -> None:
    """Refuse a folder with results unless it was said what to do with them."""
    found = [path for path in _results(folder, suffix) if path.stat().st_size]
    if mode == "error" and found:
        raise OutputExistsError(
            f"{folder} has results of an earlier query: {len(found)} files such as {found[0].name}. A query "
            "that is started again reads its input from the beginning, so they would be there twice.",
            f'Choose another folder, or give {label} mode="overwrite" to remove them first, or mode="append". With a '
            "checkpoint a query that is started again goes on.",
        )


def remove_results(folder: Path, suffix: str) -> None:
    """Remove what queries have written, published or not; nothing else in a folder is ever touched."""
    try:
        for path in _results(folder, suffix, staged=True):
            path.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(
            f"{error.filename} is to be overwritten and cannot be removed: {error.strerror}.",
            "See to its permissions, or choose another folder.",
        ) from None


def _results(folder: Path, suffix: str, *, staged: bool = False) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(
        path
        for path in folder.iterdir()
        if (is_published(path.name, suffix) or (staged and is_staged(path.name, suffix))) and path.is_file()
    )


def _not_writable(path: Path, error: OSError) -> OutputError:
    return OutputError(
        f"{path} cannot be opened for writing by a worker: {error.strerror}.",
        "Workers write files themselves: the folder must be writable on every node.",
    )


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
