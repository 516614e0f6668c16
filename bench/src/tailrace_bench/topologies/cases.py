"""What is compared: topologies with their tasks, rates and layouts of nodes, policies, bars, the papers' figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from tailrace.config import Policy, Settings

from . import texts
from .flows import log_processing, relay, sentiment

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.topology.graph import Topology

PLAIN, LOCAL, TCP, RING = "round_robin,plain", "round_robin,local", "round_robin,tcp", "round_robin,ring"
STROMAX, TURBOSTREAM, TURBOSTREAM_PLAIN = "stromax", "turbostream", "turbostream,plain"
LINK_DELAY_MS = 0.5
#: Where StroMAX stopped raising the rate (share of the processors that is used), and by how much at a time it goes up.
BUSY_SHARE, RAISED_BY = 0.5, 1.5
#: Measured traffic may be off what was predicted by this share.
OFF_MAX = 0.10


@dataclass(frozen=True)
class TopologyTimes:
    """How long arms are warmed and measured; they take turns, round by round."""

    rounds: int
    warm_s: float
    offer_s: float


QUICK = TopologyTimes(rounds=5, warm_s=0.8, offer_s=1.2)
FULL = TopologyTimes(rounds=9, warm_s=3.0, offer_s=5.0)


@dataclass(frozen=True)
class ArmSpec:
    """A policy and how workers of one node talk."""

    policy: Policy
    transport: str = "auto"

    @property
    def settings(self) -> Settings:
        """Reports come a little more often than by default, so that an offer's latencies are all in soon."""
        return Settings(progress_s=0.5, transport=self.transport)


@dataclass(frozen=True)
class TopologyCase:
    """One topology on one layout; ``bars`` are on the ratio of an arm to a baseline."""

    name: str
    nodes: int
    workers: int
    per_s: float
    #: Draws it, from the panel's path, the values and the path of the clockings.
    draw: Callable[[str, list[str], str], Topology]
    values: Callable[[], list[str]]
    arms: dict[str, ArmSpec]
    baselines: tuple[str, ...]
    bars: dict[tuple[str, str], float] = field(default_factory=dict)
    papers: dict[tuple[str, str], float] = field(default_factory=dict)
    #: Time to the end of the last bolt, as TurboStream has it, instead of to the completion of the tuple.
    at_sink: bool = False
    #: Whether the rate is raised until the machine is half busy with the first arm, as StroMAX did.
    until_busy: bool = False

    @property
    def hosts(self) -> list[str]:
        """A host name per worker: workers are dealt to the nodes in turn."""
        return [f"127.0.1.{1 + slot % self.nodes}" for slot in range(self.workers)]


def _placed(placement: str, locality: str = "off") -> Policy:
    # Nothing is late here: replays would only blur what is compared.
    return Policy(placement=placement, locality=locality, replay="fixed:600s")


_STROMAX_ARMS = {
    PLAIN: ArmSpec(_placed("round_robin")),
    LOCAL: ArmSpec(_placed("round_robin", "node")),
    STROMAX: ArmSpec(_placed("stromax", "node")),
    TURBOSTREAM: ArmSpec(_placed("turbostream", "node")),
}
_SOL_ARMS = {
    TCP: ArmSpec(_placed("round_robin"), "tcp"),
    RING: ArmSpec(_placed("round_robin")),
    TURBOSTREAM: ArmSpec(_placed("turbostream", "node")),
    TURBOSTREAM_PLAIN: ArmSpec(_placed("turbostream")),
}
_THROUGHPUT_ARMS = {TCP: _SOL_ARMS[TCP], TURBOSTREAM: _SOL_ARMS[TURBOSTREAM]}
#: Bars on the better of the two papers' policies, and what StroMAX left (Bootstrap; TT with everything, on 40 nodes).
BETTER_BARS = {"LP": 0.63, "TSSA": 0.63}
_STROMAX_PAPER = {"LP": 0.63, "TSSA": 0.61, "TT": 0.127}


def _stromax_case(
    name: str, per_s: float, draw: Callable[[str, list[str], str], Topology], values: Callable[[], list[str]]
) -> TopologyCase:
    papers = {(STROMAX, PLAIN): _STROMAX_PAPER[name]}
    return TopologyCase(name, 4, 4, per_s, draw, values, _STROMAX_ARMS, (PLAIN, LOCAL), papers=papers, until_busy=True)


def _lp(panel: str, values: list[str], _: str) -> Topology:
    return log_processing(panel, values, (4, 20, 12, 12))


def _tssa(panel: str, values: list[str], _: str) -> Topology:
    return sentiment(panel, values, (4, 8))


def _tt(panel: str, values: list[str], clockings: str) -> Topology:
    return relay("TT", panel, values, (4, 8, 8), ("identity",), clockings)


def _sol(panel: str, values: list[str], clockings: str) -> Topology:
    bolts = ("bolt1", "bolt2", "bolt3", "bolt4")
    return relay("SOL", panel, values, (5,) * 6, bolts, clockings)


def _throughput(panel: str, values: list[str], clockings: str) -> Topology:
    return relay("ThroughputTest", panel, values, (8, 8), (), clockings)


#: TurboStream's layouts of the throughput test, and what it left of JStorm's latency there.
_LAYOUTS = {(4, 4): 0.6615, (2, 2): 0.6110, (2, 4): 0.5236, (1, 2): 0.2865, (1, 4): 0.1677}


def _throughput_case(nodes: int, workers: int, paper: float) -> TopologyCase:
    return TopologyCase(
        f"ThroughputTest@{nodes}N{workers}W", nodes, workers, 1000.0, _throughput, partial(texts.strings, 100),
        _THROUGHPUT_ARMS, (TCP,), papers={(TURBOSTREAM, TCP): paper}, at_sink=True,
    )  # fmt: skip


CASES: dict[str, TopologyCase] = {
    case.name: case
    for case in (
        _stromax_case("LP", 200.0, _lp, texts.log_lines),
        _stromax_case("TSSA", 120.0, _tssa, texts.posts),
        _stromax_case("TT", 200.0, _tt, partial(texts.strings, 10_000)),
        TopologyCase(
            "SOL", 2, 8, 5000.0, _sol, texts.digits, _SOL_ARMS, (TCP, RING),
            bars={(TURBOSTREAM, TCP): 0.40, (TURBOSTREAM, RING): 0.63},
            papers={(TURBOSTREAM, TCP): 0.4016, (RING, TCP): 0.6332}, at_sink=True,
        ),
        *(_throughput_case(nodes, workers, paper) for (nodes, workers), paper in _LAYOUTS.items()),
    )
}  # fmt: skip
