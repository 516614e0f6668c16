"""The rows of a comparison: which arm is held against which, and where the bars are. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.metrics.histogram import Histogram
from tailrace_bench.arms.contest import BARE, PROCESSES, TRACKED, UNTRACKED
from tailrace_bench.reporting.rows import P999_SAMPLES_MIN, make_row, missing_row

from .measure import COMPLETE, CROSSING_MIN, PEER, PEER_TUNED

if TYPE_CHECKING:
    from tailrace_bench.reporting.rows import Row

    from .measure import Found

#: Bench -> the noun of its records, and the least ratio of [spark,tracked] to each baseline.
NOUNS = {"wordcount": "sentences", "exclaim": "strings"}
BARE_CORES = f"{BARE}*cores"
BARS: dict[str, dict[str, float]] = {
    "wordcount": {BARE_CORES: 0.22, UNTRACKED: 0.67, PROCESSES: 0.85, PEER: 2.0},
    "exclaim": {PEER: 1.0},
}
_BASELINES = (BARE_CORES, UNTRACKED, PROCESSES, PEER, PEER_TUNED)
_MS_PER_NS = 1e-6
_MIB = 1 << 20
_P999 = "p999_ms"
_SHARES = {"p50_ms": 0.5, "p99_ms": 0.99, _P999: 0.999}


def comparison_rows(kind: str, found: Found, cores: int) -> list[Row]:
    """All rows of a comparison."""
    return [
        *_saturated(kind, found, cores),
        *_offered(found),
        *_costs(kind, found),
        *_sustained(kind, found),
        *_crossing(found),
    ]


def _speeds(found: Found, cores: int) -> dict[str, list[float]]:
    speeds = {name: [window.per_s for window in windows] for name, windows in found.windows.items()}
    if BARE in speeds:
        speeds[BARE_CORES] = [speed * cores for speed in speeds[BARE]]
    return speeds


def _saturated(kind: str, found: Found, cores: int) -> list[Row]:
    speeds = _speeds(found, cores)
    if TRACKED not in speeds:
        return []
    metric, unit = f"{NOUNS[kind]}_per_s", f"{NOUNS[kind]}/s"
    rows = []
    for baseline in _BASELINES:
        if baseline in speeds:
            bar = BARS[kind].get(baseline)
            rows.append(
                make_row(
                    TRACKED, metric, unit, speeds[TRACKED],
                    better="higher", baseline=baseline, base=speeds[baseline], bar=bar,
                )
            )  # fmt: skip
    rows += [make_row(name, metric, unit, speeds[name], better="higher") for name in speeds if name != TRACKED]
    if PEER not in speeds:
        rows.append(missing_row(PEER, metric, unit, found.peer_missing, "higher"))
    return rows


def _offered(found: Found) -> list[Row]:
    rows = []
    for rate in sorted({rate for rate, _ in found.latencies}):
        ours, peers = found.latencies[rate, TRACKED], found.latencies.get((rate, PEER), [])
        for metric, share in _SHARES.items():
            case = f"rate={rate}"
            if metric == _P999:
                rows.append(_p999_row(case, ours, peers))
                continue
            values = [each.percentile(share) * _MS_PER_NS for each in ours]
            base = [each.percentile(share) * _MS_PER_NS for each in peers]
            name = PEER if base else found.peer_missing
            rows.append(
                make_row(
                    case, metric, "ms", values,
                    better="lower", baseline=name, base=base, bar=1.0 if base else None, within_spread=True,
                )
            )  # fmt: skip
            complete = [each.percentile(share) * _MS_PER_NS for each in found.latencies[rate, COMPLETE]]
            rows.append(make_row(case, f"complete_{metric}", "ms", complete, better="lower"))
        base = found.cores_used[rate, PEER]
        peer = PEER if base else None
        rows.append(
            make_row(
                f"rate={rate}", "cores_used", "cores", found.cores_used[rate, TRACKED],
                better="lower", baseline=peer, base=base,
            )
        )  # fmt: skip
    return rows


def _p999_row(case: str, ours: list[Histogram], peers: list[Histogram]) -> Row:
    """One in a thousand is looked for in all repeats together, and only where there are enough samples."""
    pooled = []
    for repeats in (ours, peers):
        histogram = Histogram()
        for each in repeats:
            histogram.merge(each)
        pooled.append(histogram)
    samples = min(len(histogram) for histogram in pooled if len(histogram))
    if samples < P999_SAMPLES_MIN:
        reason = f"{samples:,} samples; {P999_SAMPLES_MIN:,} are needed"
        return missing_row(case, _P999, "ms", reason, "lower")
    values = [[each.percentile(_SHARES[_P999]) * _MS_PER_NS] for each in pooled]
    base = values[1] if len(pooled[1]) else []
    return make_row(case, _P999, "ms", values[0], better="lower", baseline=PEER if base else None, base=base)


def _costs(kind: str, found: Found) -> list[Row]:
    rows = []
    peer = found.windows.get(PEER, [])
    for name, windows in found.windows.items():
        against = peer if name == TRACKED else []
        for metric, unit, values, base in (
            (
                f"cpu_s_per_million_{NOUNS[kind]}",
                "s",
                [window.cpu_s_per_million for window in windows],
                [window.cpu_s_per_million for window in against],
            ),
            (
                "peak_mib",
                "MiB",
                [window.peak_bytes / _MIB for window in windows],
                [window.peak_bytes / _MIB for window in against],
            ),
        ):
            baseline = PEER if base else None
            rows.append(make_row(name, metric, unit, values, better="lower", baseline=baseline, base=base))
    return rows


def _sustained(kind: str, found: Found) -> list[Row]:
    if TRACKED not in found.sustained:
        return []
    noun = NOUNS[kind]
    base = [found.sustained[PEER]] if PEER in found.sustained else []
    return [
        make_row(
            "sustainable", f"{noun}_per_s", f"{noun}/s", [found.sustained[TRACKED]],
            better="higher", baseline=PEER if base else None, base=base,
        )
    ]  # fmt: skip


def _crossing(found: Found) -> list[Row]:
    """At least half of the words must go from one worker to another, or the bench would measure less than it says."""
    if found.crossing is None:
        return []
    share = [found.crossing]
    row = make_row(
        TRACKED, "words_crossing", "share", share, better="higher", baseline="half", base=[CROSSING_MIN], bar=1.0
    )
    return [row]
