"""The folder that ``flow.apply`` keeps rows in when the user names none: removed as soon as nothing reads it any more.

Called by ``apply``. Where driver and executors are one process (``local[n]``) Spark takes the rows over and the
folder goes at once. Else a lost executor must be able to read again, so it goes with this program; what a program that
was killed left behind goes with the next one's.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import NotApplicableError

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "tailrace-apply-"


class ApplyFolder:
    """A temporary folder for the rows of one ``apply``."""

    def __init__(self, spark: Any) -> None:
        master = str(spark.sparkContext.master)
        if not master.startswith("local"):
            raise NotApplicableError(
                f"Rows that workers write need a folder that all nodes see, and the master is {master}.",
                "Pass flow.apply(df, folder=...), on a file system that the driver and all executors mount.",
            )
        sweep()
        self._one_process = master == "local" or master.startswith("local[")
        self.path = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")

    @contextlib.contextmanager
    def held(self) -> Iterator[str]:
        """Have the folder for as long as rows are written; it goes at once if that fails."""
        try:
            yield self.path
        except BaseException:
            self.remove()
            raise

    def handed_over(self, df: Any) -> Any:
        """Give a DataFrame with the folder's rows that needs no folder, or one that is there until the program ends."""
        if not self._one_process:
            atexit.register(self.remove)
            return df
        try:
            return df.localCheckpoint(eager=True)
        finally:
            self.remove()

    def remove(self) -> None:
        """Remove it and all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)


def sweep() -> None:
    """Remove the folders of programs that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):  # another program may sweep, too
            if pid.isdecimal() and folder.stat().st_uid == os.getuid() and not Path("/proc", pid).exists():
                shutil.rmtree(folder, ignore_errors=True)
