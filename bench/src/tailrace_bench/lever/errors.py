"""What can keep the benchmark of Lever from running; the command line prints it without a stack trace."""

from __future__ import annotations

from tailrace.lever.errors import LeverError


class LeverBenchError(LeverError):
    """The benchmark's own cluster or one of its drivers did not come up or died."""

    exit_code = 45
