"""What software a figure came from: versions and the commit. Written into every report, measured or simulated."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.hot import COMPILED
from tailrace.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

_PACKAGES = ("pyspark", "msgspec", "cloudpickle")


def versions(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """What was measured, by version."""
    found = {"tailrace": f"{__version__}, {'compiled' if COMPILED else 'plain'}", "python": sys.version.split()[0]}
    installed = {each.name: each.version for each in metadata.distributions() if each.name in _PACKAGES}
    return found | installed | dict(extra or {})


def commit() -> str | None:
    """The commit of a source tree, with ``+`` when files differ from it; None for an installed package."""
    here = str(Path(__file__).parent)
    try:
        head = _git(here, "rev-parse", "--short=12", "HEAD")
        changed = _git(here, "status", "--porcelain", "--untracked-files=no", "--", here + "/..", ":/bench/src")
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("+" if changed else "")


def _git(folder: str, *words: str) -> str:
    done = subprocess.run(  # noqa: S603 - fixed words
        ["git", "-C", folder, *words],  # noqa: S607 - whichever git the user has
        check=True, capture_output=True, text=True, timeout=10,
    )  # fmt: skip
    return done.stdout.strip()
