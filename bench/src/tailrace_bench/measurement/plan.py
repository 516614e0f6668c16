"""How long each part of a comparison takes, for a quick run and for one to be quoted."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ComparisonTimes:
    """Times of one run; rates in records per second, each with the seconds it is offered for."""

    repeats: int = 5
    #: How often a comparison starts Tailrace again, and the rounds of each start.
    starts: int = 3
    start_repeats: int = 4
    #: Rounds that may be taken in place of those that the host disturbed.
    spare: int = 2
    warm_s: float = 1.0
    window_s: float = 4.0
    #: One saturated window of each of a peer's settings, to find its best.
    search_s: float = 2.0
    #: Many short offers rather than a few long ones: a stall of the machine must not spoil a fifth of them.
    offer_repeats: int = 13
    offer_spare: int = 5
    #: Long enough that all offers of a rate make 20,000 records, which p99.9 needs.
    offers_s: dict[int, float] = field(default_factory=lambda: {500: 3.5, 2000: 2.0, 10_000: 2.0})
    #: Offers of each setting, to find the best at a rate.
    offer_searches: int = 3
    offer_search_s: float = 1.5
    #: Whether the sustainable rate is searched too.
    sustain: bool = True


FULL = ComparisonTimes()
QUICK = ComparisonTimes(
    starts=2,
    start_repeats=3,
    spare=1,
    warm_s=0.3,
    window_s=1.0,
    search_s=0.5,
    offer_repeats=5,
    offer_spare=2,
    offers_s={500: 1.2, 2000: 1.0, 10_000: 1.0},
    offer_searches=2,
    offer_search_s=0.5,
    sustain=False,
)
#: What an offer and a window take besides their length: coming to rest, reports, signals.
OFFER_EXTRA_S = 0.6
WINDOW_EXTRA_S = 0.3
OPEN_S = 2.0
SPARK_S = 10.0
SUSTAIN_STEPS = 10
SUSTAIN_OFFER_S = 4.0
#: A rate holds when this share of the records is complete within that time of being due.
SUSTAIN_SHARE = 0.99
SUSTAIN_LIMIT_MS = 100.0
SUSTAIN_FIRST_PER_S = 4000.0
SUSTAIN_MOST_PER_S = 1_000_000.0
