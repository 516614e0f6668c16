"""What ``tailrace bench ring`` asks of each pair, for how long, and where the bars are. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

RING, UDS, TCP, ZMQ, NETTY = ARMS = ("ring", "uds", "tcp", "zmq", "netty")
SIZES = {"100B": 100, "10KB": 10 << 10, "40KB": 40 << 10, "160KB": 160 << 10, "320KB": 320 << 10}
#: The ring's share of the other's p50, at most; in every case.
P50_BARS = {UDS: 0.85, TCP: 0.5, NETTY: 0.5}
#: How many times the other's messages per second the ring carries, at least.
FLOOD_BAR = 2.0
#: TurboStream, section V: its ring's one-way latency is lower than Netty's by so much over these cases.
PAPER = "45.64-99.30 % below Netty"


@dataclass(frozen=True)
class MessageCase:
    """Messages of one size at one rate."""

    size: str
    per_s: int

    @property
    def name(self) -> str:
        """As in ``40KB@3000/s``."""
        return f"{self.size}@{self.per_s}/s"

    @property
    def bytes(self) -> int:
        """The size of a message."""
        return SIZES[self.size]


LATENCY = (
    *(MessageCase(size, 100) for size in SIZES),
    *(MessageCase(size, per_s) for per_s in (1000, 3000) for size in ("100B", "10KB", "40KB")),
)
#: Sizes that are also sent as fast as it goes.
FLOODS = ("100B", "10KB", "40KB")
SWEEP, WORDCOUNT, STAGES = "sweep", "wordcount", "stages"
NAMES = (*(case.name for case in LATENCY), *FLOODS, SWEEP, WORDCOUNT, STAGES)
#: How many messages the ring of a sweep has room for.
SWEEP_MESSAGES = (4, 16, 32, 64, 128, 256, 512)
SWEEP_SIZES = ("100B", "10KB")


class OfferTimes(NamedTuple):
    """For how long a rate is offered, per repeat and arm."""

    seconds: float
    repeats: int


@dataclass(frozen=True)
class RingTimes:
    """Times of one run."""

    #: By rate. Many short windows rather than a few long ones: a quiet minute of the machine must not fall to one arm.
    offers: dict[int, OfferTimes] = field(
        default_factory=lambda: {100: OfferTimes(0.8, 11), 1000: OfferTimes(0.6, 11), 3000: OfferTimes(0.6, 11)}
    )
    flood_repeats: int = 9
    #: Two queries of one kind differ in speed by a tenth, and keep to it; so each is started again a few times.
    count_starts: int = 6
    #: Of each start.
    count_repeats: int = 5
    count_window_repeats: int = 15
    stages_repeats: int = 5
    #: Rounds that may be taken in place of those that the host disturbed.
    spare: int = 5
    count_spare: int = 2
    flood_s: float = 0.6
    warm_s: float = 1.0
    sweep_s: float = 0.5
    sweep_repeats: int = 5
    count_offer_s: float = 1.2
    count_warm_s: float = 0.3
    count_window_s: float = 0.6
    stages_s: float = 2.0


FULL = RingTimes()
QUICK = RingTimes(
    offers={100: OfferTimes(0.3, 7), 1000: OfferTimes(0.1, 3), 3000: OfferTimes(0.08, 3)},
    flood_repeats=7,
    count_starts=2,
    count_repeats=7,
    count_window_repeats=7,
    stages_repeats=3,
    spare=1,
    count_spare=1,
    flood_s=0.18,
    warm_s=0.4,
    sweep_s=0.1,
    sweep_repeats=2,
    count_offer_s=0.6,
    stages_s=0.4,
)
