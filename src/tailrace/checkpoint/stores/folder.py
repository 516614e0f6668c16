"""Local and mounted folders: files are written under another name, synced, and then linked to their own.

Opened by the driver and by every worker that has the folder. ``link`` fails where a name is taken, in one step of the
file system itself, also of an NFS server; a rename would replace what is there. Where a mount has no hard links, the
store refuses to open.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import ObjectMissingError, StoreError, StoreUnsupportedError
from .os_errors import named
from .tree import LEFTOVER_AGE_S, WRITING, TreeFile, TreeStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: What ``link`` says where a file system has no hard links.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
#: How often the folder of a new file may be found removed by someone who deleted the last other file in it.
_TRIES = 10


class FolderStore(TreeStore):
    """Objects as files below a folder.

    Opened to be written, it makes the folder, sees at once whether it can write there, and removes what crashes left.
    """

    reachable_from_workers = True

    def __init__(self, path: str | Path, *, writable: bool = True) -> None:
        self._root = Path(path).absolute()
        super().__init__(str(self._root))
        with named("open", self.address):
            if writable:
                _make_folders(self._root)
                self._try_and_tidy()
            elif not self._root.is_dir():
                raise NotADirectoryError(errno.ENOTDIR if self._root.exists() else errno.ENOENT, "no folder")

    def _create(self, path: str, data: bytes) -> bool:
        target = self._root / path
        with named("write", self.address, path):
            if os.path.lexists(target):
                _sync_folder(target.parent)  # whoever linked it may not have come to this
                return False
            written = _write_into(target.parent, data)
            try:
                won = _link(written, target)
                _sync_folder(target.parent)
            finally:
                with contextlib.suppress(OSError):
                    written.unlink()
        return won

    def _read(self, path: str) -> bytes:
        target = self._root / path
        with named("read", self.address, path):
            try:
                return target.read_bytes()
            except FileNotFoundError:
                # An NFS client may remember for seconds that a name was absent; a listing makes it look again.
                if target.name not in self._names(os.path.relpath(target.parent, self._root)):
                    raise
                return target.read_bytes()
            except (IsADirectoryError, NotADirectoryError):
                raise ObjectMissingError(
                    f"Expected the object {path!r} at {self.address}; found a folder of that name or a file above it."
                ) from None

    def _remove(self, path: str) -> None:
        target = self._root / path
        with named("delete", self.address, path):
            try:
                target.unlink()
            except (FileNotFoundError, NotADirectoryError):
                return
            _sync_folder(target.parent)
            folder = target.parent
            with contextlib.suppress(OSError):  # not empty, or someone else has removed it
                while folder != self._root:
                    folder.rmdir()
                    folder = folder.parent

    def _names(self, folder: str) -> Iterable[str]:
        with named("list", self.address, folder):
            try:
                return [entry.name for entry in (self._root / folder).iterdir()]
            except (FileNotFoundError, NotADirectoryError):
                return []

    def _walk(self, folder: str) -> Iterable[TreeFile]:
        with named("list", self.address, folder):
            return [
                TreeFile(os.path.relpath(entry.path, self._root), entry.stat().st_size)
                for entry in _files(self._root / folder)
                if not entry.name.startswith(".")
            ]

    def _try_and_tidy(self) -> None:
        """See that links can be made here, and remove old leftovers by the clock of whoever has the files."""
        written = _write_into(self._root, b"")
        second = written.with_name(f"{WRITING}{uuid.uuid4().hex}")
        try:
            _link(written, second)
            now_s = written.stat().st_mtime
        finally:
            for path in (written, second):
                path.unlink(missing_ok=True)
        for entry in _files(self._root):
            with contextlib.suppress(FileNotFoundError):
                if entry.name.startswith(WRITING) and now_s - entry.stat().st_mtime > LEFTOVER_AGE_S:
                    Path(entry.path).unlink()


def _files(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Go through all files below a folder; what others remove meanwhile is left out."""
    try:
        with os.scandir(folder) as entries:
            found = list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry.path))
        else:
            yield entry


def _write_into(folder: Path, data: bytes) -> Path:
    """Write a new file of a name that no reader looks at, durably; its folder is made if it is absent."""
    path = folder / f"{WRITING}{uuid.uuid4().hex}"
    for _ in range(_TRIES):
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            break
        except FileNotFoundError:
            _make_folders(folder)
    else:
        raise StoreError(f"Expected to write into {folder}; it was removed {_TRIES} times.", "See who removes it.")
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
            os.fsync(handle)
        finally:
            os.close(handle)  # NFS tells here what did not fit
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    return path


def _link(written: Path, target: Path) -> bool:
    """Give a file its own name unless that is taken."""
    try:
        os.link(written, target)
    except OSError as error:
        # Over NFS the answer may be lost and the repeated request refused; the number of links tells.
        with contextlib.suppress(OSError):
            if written.stat().st_nlink > 1:
                return True
        if isinstance(error, FileExistsError):
            return False
        if error.errno in _NO_LINKS:
            raise StoreUnsupportedError(
                f"Expected a file system with hard links at {target.parent}; link() says {error.strerror}.",
                "Choose a folder on a local disk or NFS, or a URI of an object store or of Hadoop's file systems.",
            ) from error
        raise
    return True


def _make_folders(folder: Path) -> None:
    """Make a folder and those above it, durably."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        _make_folders(folder.parent)
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        _sync_folder(folder.parent)
    if not folder.is_dir() and folder.exists():
        raise NotADirectoryError(errno.ENOTDIR, "a file", str(folder))


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some mounts cannot, and have no need to
            raise
    finally:
        os.close(handle)
