"""Rounds of a bench: every arm once per round, in an order that is dealt again, so that ratios pair close windows.

The cores of a virtual machine are lent. What the host gives to others while something here wants to run, the kernel
counts as stolen, and a round in which much was stolen says little about the arms. Which rounds count is decided by that
figure alone, never by what the arms did: until enough were calm a few more are taken, and the calmest are kept.
"""

from __future__ import annotations

import time
from random import Random
from typing import TYPE_CHECKING, TypeVar

from .machine import StolenTime, stolen_s

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from .pace import Pace

Name = TypeVar("Name", bound="Hashable")
Got = TypeVar("Got")

#: A calm round loses at most this share of one core to the host.
CALM_SHARE = 0.02


def take(
    arms: Sequence[Name],
    repeats: int,
    measure: Callable[[Name], Got],
    pace: Pace,
    *,
    spare: int = 0,
    clock_s: Callable[[], float] = time.monotonic,
    taken_s: Callable[[], float] = stolen_s,
) -> dict[Name, list[Got]]:
    """Give what ``measure`` gave for each arm in ``repeats`` rounds, in the order of the rounds.

    ``spare`` is how many rounds more may be taken in place of disturbed ones. The orders are alike in every run.
    """
    dealt = Random(repeats)  # noqa: S311 - an order, not a secret
    rounds: list[dict[Name, Got]] = []
    lost: list[float] = []
    while len(rounds) < repeats + spare and sum(share <= CALM_SHARE for share in lost) < repeats:
        stolen = StolenTime(taken_s, clock_s)
        rounds.append({arm: measure(arm) for arm in dealt.sample(arms, len(arms))})
        lost.append(stolen.share())
        if lost[-1] > CALM_SHARE and len(rounds) < repeats + spare:
            pace.step(f"The host took {lost[-1]:.1%} of a core: this round may be replaced", 0)
    calmest = sorted(range(len(rounds)), key=lost.__getitem__)[:repeats]
    return {arm: [rounds[at][arm] for at in sorted(calmest)] for arm in arms}
