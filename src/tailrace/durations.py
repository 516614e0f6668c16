"""How long something is, as users write it: ``"10 minutes"``, a timedelta, or seconds. Pure; anyone may call it."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from .errors import TailraceError

#: What a user may write for a length of time.
Duration = str | float | timedelta

_UNITS_MS = {
    "ms": 1, "millisecond": 1, "s": 1000, "sec": 1000, "second": 1000, "min": 60_000, "minute": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "d": 86_400_000, "day": 86_400_000, "week": 604_800_000,
}  # fmt: skip
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*,?")


class DurationError(TailraceError):
    """Something that should be a length of time is none, or not above zero."""

    exit_code = 2


def duration_ms(given: object, what: str) -> int:
    """Tell a length of time in milliseconds; ``what`` says in an error whose it is."""
    found = _ms_of(given)
    if found is None or not 1 <= found < math.inf:
        raise DurationError(
            f"{what} must be a length of time of a millisecond at least; found {given!r}.",
            "Write for example '10 minutes', '1 hour 30 min', datetime.timedelta(days=1), or a number of seconds.",
        )
    return round(found)


def _ms_of(given: object) -> float | None:
    if isinstance(given, timedelta):
        return given.total_seconds() * 1000
    if isinstance(given, int | float) and not isinstance(given, bool):
        return given * 1000
    return _ms_of_text(given.lower()) if isinstance(given, str) else None


def _ms_of_text(text: str) -> float | None:
    total, at = 0.0, 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            return None
        unit = part[2] if part[2] in _UNITS_MS else part[2].removesuffix("s")
        if unit not in _UNITS_MS:
            return None
        total += float(part[1]) * _UNITS_MS[unit]
        at = part.end()
    return total if at else None
