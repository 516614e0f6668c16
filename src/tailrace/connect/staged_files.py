"""Files of one task of a sink that are published with the epochs of a checkpoint: staged, then renamed.

    _part-TASK-CHECKPOINT-ATTEMPT-EXECUTION-OPENING-NUMBER.SUFFIX    staged: written, and maybe prepared for an epoch
    part-TASK-EPOCH-OPENING-NUMBER.SUFFIX                            published, and never touched again

``OPENING`` is drawn for every sink that is opened, so no two ever write one file: neither a worker that was taken for
dead and its successor, nor two queries in one folder. ``files`` writers use it in the worker; it touches the folder.
"""

from __future__ import annotations

import os
import re
import uuid
from typing import TYPE_CHECKING, Any

from .errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..topology.operators import TaskContext

#: Published files, and staged ones with the task, checkpoint, attempt and execution that they are of.
PUBLISHED = re.compile(r"part-\d{5,}(-\d{10,}-[0-9a-f]+-\d+)?\.\w+")
STAGED = re.compile(r"_part-(\d{5,})-([0-9a-f]*)-(\d+)-(\d+)-([0-9a-f]+-\d+)\.\w+")


class StagedFiles:
    """What one task has written and not published."""

    def __init__(self, folder: Path, suffix: str, ctx: TaskContext) -> None:
        self._folder = folder
        self._suffix = suffix
        self._task = ctx.task
        self._owner = (ctx.checkpoint, ctx.attempt, ctx.execution)
        self._opening = uuid.uuid4().hex[:12]
        self._count = 0
        self._swept = False
        #: Files that are written to the end and belong to no epoch yet, and those of each epoch.
        self._loose: list[str] = []
        self._prepared: dict[int, list[str]] = {}

    def next_path(self) -> Path:
        """Where to write the next file; it belongs to the epoch that is prepared next."""
        self._count += 1
        owner = "-".join(map(str, self._owner))
        name = f"_part-{self._task:05d}-{owner}-{self._opening}-{self._count}{self._suffix}"
        self._loose.append(name)
        return self._folder / name

    def prepare(self, epoch: int) -> Callable[[], object] | None:
        """All files so far are whole and belong to this epoch; gives what makes them durable."""
        if not self._loose:
            return None
        names, self._loose = self._loose, []
        self._prepared[epoch] = names
        return DiskSync(self._folder, names)

    def commit(self, epoch: int) -> None:
        """Let readers see the files of an epoch."""
        names = self._prepared.get(epoch, ())
        for name in names:
            self._publish(name, epoch)
        if names:
            _sync(self._folder)
        self._prepared.pop(epoch, None)
        if not self._swept:
            # That the epoch is durable shows that this start of the query is the one that counts: what another one of
            # the same number, begun before there was any epoch, has left will never be published.
            self._swept = True
            self._sweep((*self._owner[1:], True))

    def publish_now(self) -> None:
        """Let readers see all files so far: for queries without epochs."""
        for name in self._loose:
            self._publish(name, 1)
        self._loose = []

    def _publish(self, name: str, epoch: int) -> None:
        found = STAGED.fullmatch(name)
        opening = "" if found is None else found[5]
        target = self._folder / f"part-{self._task:05d}-{epoch:010d}-{opening}{self._suffix}"
        try:
            (self._folder / name).rename(target)
        except FileNotFoundError:
            if target.exists():  # an earlier execution, or another one that goes on from the same epoch, has done it
                return
            raise OutputError(
                f"Task {self._task} cannot publish epoch {epoch} in {self._folder}: neither {name} nor "
                f"{target.name} is there.",
                "All nodes must see the same folder. If a reader took the published file away just before a worker was "
                f"lost, make an empty file {target.name}.",
            ) from None

    def abort(self, epoch: int) -> None:
        """Forget this epoch and later ones, and remove what earlier executions of this task left of them.

        Never what a later one has: a driver that was taken for dead may still begin executions of its own.
        """
        self._prepared = {kept: names for kept, names in self._prepared.items() if kept < epoch}
        self._loose = []
        self._sweep((*self._owner[1:], False))

    def _sweep(self, below: tuple[int, int, bool]) -> None:
        """Remove what is staged for this task by attempts and executions below, but for what is its own."""
        own = {name for names in (self._loose, *self._prepared.values()) for name in names}
        for path in self._folder.iterdir():
            found = STAGED.fullmatch(path.name)
            if found is None or path.suffix != self._suffix or path.name in own:
                continue
            theirs = (int(found[3]), int(found[4]), False)
            if int(found[1]) == self._task and found[2] == self._owner[0] and theirs < below:
                path.unlink(missing_ok=True)

    def snapshot(self) -> dict[str, Any]:
        """What another worker needs to go on: the names; the folder has the rest."""
        return {"loose": list(self._loose), "prepared": dict(self._prepared)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with what another one has written."""
        self._loose = list(state["loose"])
        self._prepared = dict(state["prepared"])


def is_staged(name: str, suffix: str) -> bool:
    """Whether a file has been written and not published."""
    return STAGED.fullmatch(name) is not None and name.endswith(suffix)


def is_published(name: str, suffix: str) -> bool:
    """Whether a file is a result of some query."""
    return PUBLISHED.fullmatch(name) is not None and name.endswith(suffix)


class DiskSync:
    """Has the disk take some files. One that it could not take once is never durable: it would not fail again."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self._folder = folder
        self._names = names
        self._failed: OutputError | None = None

    def __call__(self) -> None:
        """Wait for the disk."""
        if self._failed is not None:
            raise self._failed
        try:
            for path in (*map(self._folder.joinpath, self._names), self._folder):
                _sync(path)
        except OSError as error:
            self._failed = OutputError(
                f"{error.filename} cannot be made durable: {error.strerror}.",
                "See to the disk, and start the query again: it goes on from its last checkpoint.",
            )
            raise self._failed from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
