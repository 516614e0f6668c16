"""The text that ships with the package: about 2,000 sentences of Wikipedia, for the demo, the examples and the tests.

NOTICE beside it names the licence and the articles. Whoever needs the file asks ``wiki_path``.
Nothing here is ever written to.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from tailrace.errors import TailraceError


class MissingDataError(TailraceError):
    """The installation lacks a data file, or keeps it where operators cannot open it as a file."""

    exit_code = 4


def wiki_path() -> Path:
    """Tell where the excerpt lies: one sentence per line, UTF-8."""
    found = files(__name__) / "wiki.txt"
    if isinstance(found, Path) and found.is_file():
        return found
    raise MissingDataError(
        f"Expected the Wikipedia excerpt as a plain file, found none at {found}.",
        "Install tailrace unpacked (pip install), not as a zip archive on the Python path.",
    )
