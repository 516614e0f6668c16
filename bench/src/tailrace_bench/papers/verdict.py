"""Does a claim hold here: how much of the paper's gain is left, and the word for it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .claims import Claim
    from .jobs import Figure

HOLDS, SMALLER, FAILS, NOT_RUN = "holds", "holds but smaller", "does not hold", "not run"
VERDICTS = (HOLDS, SMALLER, FAILS, NOT_RUN)
#: Of the paper's gain: from here on a claim holds, and from there on it holds but is smaller.
_HOLDS_FROM, _SMALLER_FROM = 0.9, 0.1


@dataclass(frozen=True)
class Judged:
    """A claim with what was found for it."""

    claim: Claim
    verdict: str
    figure: Figure | None = None
    #: Of the paper's gain, what is left here; above 1 it is larger.
    share: float | None = None
    #: Why it was not run.
    reason: str = ""


def share_of(claim: Claim, ours: float) -> float:
    """(nothing - ours) / (nothing - theirs): 1 is the paper's gain, 0 none at all, below 0 the opposite."""
    return (claim.nothing - ours) / (claim.nothing - claim.theirs)


def judge(claim: Claim, figure: Figure | None, reason: str = "") -> Judged:
    """Give the verdict; without a figure there is a reason instead."""
    if figure is None:
        return Judged(claim, NOT_RUN, reason=reason)
    share = share_of(claim, figure.ours)
    verdict = HOLDS if share >= _HOLDS_FROM else SMALLER if share >= _SMALLER_FROM else FAILS
    return Judged(claim, verdict, figure, share)
