"""Folders in shared memory: where a worker's ring, socket and probe lie, and how they vanish whatever happens to it.

A worker makes one ``Folder`` at its start and closes it at its end; peers check what they open with ``check_ours`` and
prove a common node with ``reads_probe``. Touches only entries of the base folder whose names begin with ``tailrace-``.

A folder's name holds the identity of its owner (pid namespace, pid, start time), so that a dead one's folder is told
without any file inside it. After a SIGKILL the watcher of the node (``reaping``) removes it; the next start on the node
removes what a killed watcher left.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import inspect
import os
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tailrace.errors import TailraceError

from . import reaping

if TYPE_CHECKING:
    from collections.abc import Callable

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - shared memory is what it is for
NONCE_CHARS = 32
_WATCHER_START_S = 10


class SegmentError(TailraceError):
    """A segment of shared memory cannot be had or trusted."""

    exit_code = 30


class NoSharedMemoryError(SegmentError):
    """Shared memory is missing, full or too small; the Unix socket is the way out."""

    exit_code = 31


class ForeignSegmentError(SegmentError):
    """A segment is a link, belongs to another user or is open to others."""

    exit_code = 32


class RingUnavailableError(TailraceError):
    """The native extension is missing on this machine."""

    exit_code = 33


class Probe(NamedTuple):
    """What a peer must read to prove that it stands on the same node."""

    path: str
    nonce: str


class Folder:
    """The folder of one process, 0700, with a random name."""

    def __init__(self, path: Path, *, in_shared_memory: bool) -> None:
        self.path = path
        self.in_shared_memory = in_shared_memory
        self._owner_pid = os.getpid()

    @classmethod
    def make(cls, base: Path | None = None, *, watched: bool = True) -> Folder:
        """Make it in shared memory, or in the temporary folder where that is missing or full, and have it watched."""
        found = ""
        bases = [base] if base else [SHARED_MEMORY, Path(tempfile.gettempdir())]
        for candidate in bases:
            try:
                path = _make_private(candidate)
            except OSError as error:
                found = f"{candidate}: {error.strerror}"
                continue
            if watched:
                _have_watched(candidate)
            return cls(path, in_shared_memory=candidate == SHARED_MEMORY)
        raise NoSharedMemoryError(
            f"A folder for this worker's segments was expected, found {found}.",
            f"Make one of {', '.join(map(str, bases))} writable, or free space in it.",
        )

    def write_probe(self) -> Probe:
        """Write a nonce that only processes of this node and user can read."""
        probe = Probe(str(self.path / "probe"), secrets.token_hex(NONCE_CHARS // 2))
        with os.fdopen(create_file(probe.path), "w", encoding="ascii") as file:
            file.write(probe.nonce)
        return probe

    def close(self) -> None:
        """Remove it with all that is in it; a forked child leaves its parent's alone."""
        if os.getpid() == self._owner_pid:
            shutil.rmtree(self.path, ignore_errors=True)


def _make_private(base: Path) -> Path:
    """Make the folder and see that it takes a byte: a full file system still makes folders."""
    path = base / reaping.name_for(reaping.own_identity(), secrets.token_hex(8))
    path.mkdir(mode=0o700)
    try:
        (path / "room").write_bytes(b"x")
        (path / "room").unlink()
    except OSError:
        shutil.rmtree(path, ignore_errors=True)
        raise
    return path


def create_file(path: str) -> int:
    """Create a file exclusively, 0600, and return its descriptor; something already there is refused."""
    try:
        return os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise ForeignSegmentError(
            f"{path} was expected not to exist, found {'a link' if Path(path).is_symlink() else 'something there'}.",
            "Someone else writes into this worker's folder: stop it and start the query again.",
        ) from error
    except OSError as error:
        raise as_segment_error(error, path) from error


def as_segment_error(error: OSError, path: str) -> SegmentError:
    """Name an operating-system error met with a segment, so that callers know whether to fall back or to refuse."""
    if error.errno in {errno.ENOSPC, errno.ENOMEM, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.ENOENT, errno.EMFILE}:
        return NoSharedMemoryError(
            f"Shared memory for {path} was expected, found: {error.strerror}.",
            "Give the container more of it (docker run --shm-size) or lower ring_bytes; workers can use Unix sockets.",
        )
    return ForeignSegmentError(
        f"{path} was expected to be a segment of this user, found: {error.strerror}.",
        "It was not made by this query's workers on this node; start the query again.",
    )


def check_ours(path: str) -> None:
    """Refuse what is a link or no regular file, belongs to someone else or is open to others, or whose folder is."""
    _check_entry(path, stat.S_ISREG, "a regular file")
    _check_entry(str(Path(path).parent), stat.S_ISDIR, "a folder")


def _check_entry(path: str, is_kind: Callable[[int], bool], kind: str) -> None:
    try:
        info = os.lstat(path)
    except OSError as error:
        raise as_segment_error(error, path) from error
    found = _fault(info, is_kind, kind)
    if found:
        raise ForeignSegmentError(
            f"{path} was expected to be {kind} of this user with no access for others, found {found}.",
            "It was not made by this query's workers on this node; start the query again.",
        )


def _fault(info: os.stat_result, is_kind: Callable[[int], bool], kind: str) -> str:
    if stat.S_ISLNK(info.st_mode):
        return "a symbolic link"
    if not is_kind(info.st_mode):
        return f"something that is not {kind}"
    if info.st_uid != os.geteuid():
        return f"the owner {info.st_uid}"
    return f"the mode {stat.S_IMODE(info.st_mode):04o}" if info.st_mode & 0o077 else ""


def reads_probe(probe: Probe) -> bool:
    """Whether this process can read the peer's nonce, so that both stand on one node under one user."""
    try:
        check_ours(probe.path)
        descriptor = os.open(probe.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, SegmentError):
        return False
    with os.fdopen(descriptor, "rb") as file:
        found = file.read(NONCE_CHARS + 1)
    return len(probe.nonce) == NONCE_CHARS and hmac.compare_digest(found, probe.nonce.encode())


def _have_watched(base: Path) -> None:
    """Start the watcher unless one listens. It is asked after the folder was made, so it cannot overlook it."""
    reaping.reap(base)
    if not sys.platform.startswith("linux"):
        return
    with socket.socket(socket.AF_UNIX) as door, contextlib.suppress(OSError):
        door.connect(reaping.watcher_address(base))
        return
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        # The source and not the file: the package may be imported from a zip that Spark shipped.
        source = inspect.getsource(reaping)
        subprocess.run(  # noqa: S603 - our own interpreter and code
            [sys.executable, "-I", "-S", "-c", source, str(base)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            timeout=_WATCHER_START_S,
            check=False,
        )
