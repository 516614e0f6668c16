"""Whether a sink will be able to write into its folder, as far as the driver can tell; asked before Spark starts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .errors import OutputError

if TYPE_CHECKING:
    from pathlib import Path


def check_writable(label: str, folder: Path) -> None:
    """Refuse a folder that can be neither written nor made."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        reason = "may not be written by this user" if there.is_dir() else "is no folder"
        raise OutputError(
            f"{label} is to write into {folder}, and {there} {reason}.",
            "Choose a folder that can be made and written, here and on every node.",
        )
