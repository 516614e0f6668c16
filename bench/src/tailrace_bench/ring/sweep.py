"""How large a ring should be: messages per second, and latency at a rate, with room for ever more messages."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from tailrace_bench.measurement import rounds
from tailrace_bench.reporting.plots import Curve, draw
from tailrace_bench.reporting.rows import make_row

from .cases import RING, SIZES, SWEEP_MESSAGES, SWEEP_SIZES
from .messages import EXTRA_S, OPEN_S, percentile
from .pair import Pair

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace_bench.measurement.pace import Pace
    from tailrace_bench.reporting.rows import Row

    from .cases import RingTimes

_PER_S = 3000
_US_PER_NS = 1e-3
#: What the others are held against: the default leaves room for about as many.
BASE_MESSAGES = 128
_PAPER = "50 to 100 messages are right"
_UNIT_BYTES = 64
_PREFIX = "ring,{size},messages="


def planned_s(plan: RingTimes) -> float:
    """About how long it takes."""
    return len(SWEEP_SIZES) * len(SWEEP_MESSAGES) * (OPEN_S + plan.sweep_repeats * 2 * (plan.sweep_s + EXTRA_S))


def ring_bytes(size: str, messages: int) -> int:
    """A ring with room for so many messages; a record takes whole units, and one of them stays free."""
    units = -(-SIZES[size] // _UNIT_BYTES)
    return max(1024, (messages * units + 1) * _UNIT_BYTES)


def rows(plan: RingTimes, pace: Pace, folder: Path) -> list[Row]:
    """One ring of each size, in turns."""
    return [row for size in SWEEP_SIZES for row in _sweep(size, plan, pace, folder)]


def _sweep(size: str, plan: RingTimes, pace: Pace, folder: Path) -> list[Row]:
    pace.step(f"Ring sizes, messages of {size}", planned_s(plan) / len(SWEEP_SIZES))
    with contextlib.ExitStack() as stack:
        pairs = {}
        for messages in SWEEP_MESSAGES:
            name = _PREFIX.format(size=size) + str(messages)
            pairs[name] = Pair(RING, folder, ring_bytes=ring_bytes(size, messages))
            stack.callback(pairs[name].close)
            pairs[name].flood(SIZES[size], plan.sweep_s)

        def measure(name: str) -> tuple[float, float]:
            per_s = pairs[name].flood(SIZES[size], plan.sweep_s).per_s
            late_ns = pairs[name].latencies_ns(SIZES[size], _PER_S, round(plan.sweep_s * _PER_S))
            return per_s, percentile(late_ns, 0.5) * _US_PER_NS

        found = rounds.take(list(pairs), plan.sweep_repeats, measure, pace)
    speeds = {name: [per_s for per_s, _ in each] for name, each in found.items()}
    medians = {name: [median_us for _, median_us in each] for name, each in found.items()}
    base = _PREFIX.format(size=size) + str(BASE_MESSAGES)
    made = []
    for name in pairs:
        made += [
            make_row(
                name, "msgs_per_s", "messages/s", speeds[name],
                better="higher", baseline=base, base=speeds[base], paper=_PAPER,
            ),
            make_row(
                name, "p50_us", f"us at {_PER_S}/s", medians[name],
                better="lower", baseline=base, base=medians[base],
            ),
        ]  # fmt: skip
    return made


def plots(found: list[Row], folder: Path) -> list[Path]:
    """Draw speed and latency over the ring's size."""
    curves = {}
    for size in SWEEP_SIZES:
        prefix = _PREFIX.format(size=size)
        curves[f"ring-size-{size}"] = Curve(f"Saturated ring, {size}", "msgs_per_s", prefix, "messages in the ring", 2)
        curves[f"ring-size-{size}-p50"] = Curve(
            f"p50 at {_PER_S}/s, {size}", "p50_us", prefix, "messages in the ring", 2
        )
    return draw([row for row in found if row["case"].startswith("ring,")], folder, curves)
