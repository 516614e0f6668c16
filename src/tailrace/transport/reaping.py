"""Who owns a folder in shared memory, and the removal of those whose owners are dead.

``segments`` names its folders here and runs this file, as a program of its own, as the watcher of a node: one process
per user that removes a killed worker's folder within about a second and ends when the last folder is gone. It imports
only the standard library, because the watcher is started without the package's path.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import time
import zlib
from pathlib import Path
from typing import NamedTuple

PREFIX = "tailrace-"
_NAME_PARTS = 5
_START_FIELD = 19  # of /proc/<pid>/stat, counted behind the process's name
_THREADS_FIELD = 17
_SCAN_EVERY_S = 0.5
_QUIET_SCANS = 4  # without any folder, before the watcher ends


class Identity(NamedTuple):
    """A process that cannot be mistaken for a later one with its pid."""

    namespace: int
    pid: int
    start_ticks: int

    def is_dead(self) -> bool:
        """Whether it is certainly gone; a process of another namespace counts as alive."""
        if self.namespace != _pid_namespace():
            return False
        found_ticks = _start_ticks(self.pid)
        if found_ticks is None:
            return True
        return 0 not in {found_ticks, self.start_ticks} and found_ticks != self.start_ticks


def own_identity() -> Identity:
    """Name the calling process."""
    pid = os.getpid()
    return Identity(_pid_namespace(), pid, _start_ticks(pid) or 0)


def _pid_namespace() -> int:
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def _start_ticks(pid: int) -> int | None:
    """Start time of a living process in clock ticks since boot; None if it is gone, 0 if nothing more is known."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        with contextlib.suppress(PermissionError):
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return None
        return 0
    if fields[0] in "ZX" and int(fields[_THREADS_FIELD]) <= 1:
        return None
    return int(fields[_START_FIELD])


def name_for(owner: Identity, token: str) -> str:
    """Name the folder of a process."""
    return f"{PREFIX}{owner.namespace}-{owner.pid}-{owner.start_ticks}-{token}"


def owner_of(name: str) -> Identity | None:
    """Read the owner out of a folder's name; None if it is not one of ours."""
    parts = name.split("-")
    if not name.startswith(PREFIX) or len(parts) != _NAME_PARTS or not all(part.isdigit() for part in parts[1:4]):
        return None
    return Identity(int(parts[1]), int(parts[2]), int(parts[3]))


def reap(base: Path) -> list[str]:
    """Remove the folders of this user whose owners are dead; returns the names of those that remain."""
    remaining = []
    for entry in os.scandir(base):
        owner = owner_of(entry.name)
        if owner is None:
            continue
        with contextlib.suppress(OSError):
            if not entry.is_dir(follow_symlinks=False) or entry.stat(follow_symlinks=False).st_uid != os.geteuid():
                continue
            if owner.is_dead():
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                remaining.append(entry.name)
    return remaining


def watcher_address(base: Path) -> str:
    """Address of the watcher: an abstract socket, which leaves nothing behind when its process ends."""
    # The base by its checksum: a socket's address has room for a hundred characters only.
    return f"\0{PREFIX}watcher-{os.geteuid()}-{_pid_namespace()}-{zlib.crc32(os.fsencode(base)):08x}"


def watch(base: Path) -> None:
    """Remove dead owners' folders until none is left, unless another watcher already does."""
    while reap(base):
        with socket.socket(socket.AF_UNIX) as door:
            try:
                door.bind(watcher_address(base))
            except OSError:
                return
            door.listen(64)
            door.setblocking(False)
            _watch_until_quiet(base, door)
        # A worker that found the door open made its folder before: the scan of the loop's head still sees it.


def _watch_until_quiet(base: Path, door: socket.socket) -> None:
    quiet_scans = 0
    while quiet_scans < _QUIET_SCANS:
        with contextlib.suppress(BlockingIOError):
            while True:
                door.accept()[0].close()
        time.sleep(_SCAN_EVERY_S)
        quiet_scans = 0 if reap(base) else quiet_scans + 1


def main() -> None:
    """Leave the worker's process group, so that what ends the worker does not end its watcher, and watch."""
    if os.fork() == 0:
        os.setsid()
        watch(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
