"""The benches ``wordcount`` and ``exclaim``: what ``compare`` measures of them, as rows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from . import compare
from .bench import Bench, Outcome
from .compare_rows import comparison_rows
from .contest import TRACKED
from .machine import cores
from .pace import Pace
from .plan import FULL, QUICK

if TYPE_CHECKING:
    from .bench import Request

#: A quick run offers the rates of a full one.
_CASES = (*(f"rate={rate}" for rate in FULL.offers_s), TRACKED, "sustainable")


def _compared(kind: str, request: Request) -> Outcome:
    plan = QUICK if request.quick else FULL
    with Pace(request.console, compare.planned_s(plan, request.only)) as pace:
        found = compare.compare(kind, plan, pace, request.only)
    versions = {"bytewax": found.peer_version} if found.peer_version else {}
    return Outcome(comparison_rows(kind, found, cores()), found.notes, versions)


WORDCOUNT = Bench("wordcount", partial(_compared, "wordcount"), _CASES)
EXCLAIM = Bench("exclaim", partial(_compared, "exclaim"), _CASES)
