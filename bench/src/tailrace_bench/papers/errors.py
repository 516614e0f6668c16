"""What can be wrong with the claims file or with a run of it."""

from __future__ import annotations

from tailrace.errors import TailraceError


class PapersError(TailraceError):
    """Base: the claims cannot be run as asked."""

    exit_code = 2


class ClaimsFileError(PapersError):
    """The claims file does not say what it should."""


class UnknownPaperError(PapersError):
    """There is no paper of that name."""


class WatchError(PapersError):
    """There is nothing to compare a bench's ratios with."""
