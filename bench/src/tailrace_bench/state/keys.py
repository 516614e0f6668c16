"""A million keys of 100 bytes: what checkpoints do to the tail, how large deltas are, how long a restore takes.

One arm per backend and without checkpoints, each loaded with all keys first; then one key in a hundred is renewed per
epoch. What one get and set of a value costs is measured by itself, in a loop.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.checkpoint.log import ManifestLog
from tailrace.checkpoint.part import decode_part
from tailrace.checkpoint.settings import Checkpoint
from tailrace.checkpoint.stores import open_store
from tailrace.config import Settings
from tailrace.transport import codec
from tailrace.worker.execution.backends import backends_of
from tailrace_bench.arms.contest import Contest
from tailrace_bench.arms.engine import PROGRESS_S, EngineArm
from tailrace_bench.measurement import plan as times
from tailrace_bench.measurement import rounds
from tailrace_bench.reporting.rows import limit_row, make_row

from .flow import VALUE_BYTES, keys_flow, renew

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.topology.graph import Topology
    from tailrace_bench.measurement.pace import Pace
    from tailrace_bench.measurement.plan import ComparisonTimes
    from tailrace_bench.reporting.rows import Row

CASE = "keys=1000000"
KEYS, QUICK_KEYS = 1_000_000, 200_000
#: The share of the keys that change in an epoch of a second.
CHANGED = 0.01
MEMORY, DISK, OFF = "memory", "disk", "off"
TAIL_BAR, DELTA_BAR, OP_US_MAX = 2.0, 1.5, 2.0
_LOAD_S = 20.0
_MS_PER_NS = 1e-6
#: Operations per measurement, and the keys they are spread over.
_OPS, _OP_KEYS = 200_000, 10_000
#: Values of one turn.
_TURN = 500


class KeysArm(EngineArm):
    """A query with the state of many keys, loaded before it is measured."""

    def __init__(self, name: str, keys: int, contest: Contest, backend: str, checkpoint: Checkpoint | None) -> None:
        settings = Settings(progress_s=PROGRESS_S, state_backend=backend)
        super().__init__(
            name, "keys", contest.folder, contest.spark_host, settings=settings, checkpoint=checkpoint
        )  # fmt: skip
        self._keys = keys

    def draw(self) -> tuple[Topology, Any]:
        """Draw what it runs."""
        return keys_flow(self.panel.path, self._keys, self.partitions)

    def load(self) -> None:
        """Let every key come once at least."""
        while sum(self.panel.made(self.partitions)) < self._keys:
            self.saturate(0.1, 1.0)

    def check(self, parts: list[dict[str, int]]) -> None:
        """Hold what came out against what was made; what is in the state is looked at by tests."""
        del parts


def planned_s(plan: ComparisonTimes) -> float:
    """About how long it takes."""
    offers = 3 * plan.offer_repeats * (_offer_s(plan) + times.OFFER_EXTRA_S)
    return times.SPARK_S + 4 * times.OPEN_S + 3 * _LOAD_S + offers


def _offer_s(plan: ComparisonTimes) -> float:
    return max(2.0, plan.offers_s[10_000])


def rows(plan: ComparisonTimes, pace: Pace, *, quick: bool) -> list[Row]:
    """Measure the three arms in turns, then restore both checkpoints."""
    keys = QUICK_KEYS if quick else KEYS
    rate = keys * CHANGED
    tails: dict[str, list[float]] = defaultdict(list)
    with Contest("keys", lambda text: pace.step(text, times.SPARK_S), hosted_at_once=3) as contest:
        where = {name: contest.folder / f"checkpoint-{name}" for name in (MEMORY, DISK)}
        arms = {}
        for name in (OFF, MEMORY, DISK):
            durable = Checkpoint(where[name], every_s=1.0) if name in where else None
            pace.step(f"Loading {keys:,} keys: {name}", times.OPEN_S + _LOAD_S)
            arms[name] = _opened(contest, name, keys, DISK if name == DISK else MEMORY, durable)
            arms[name].load()

        def offer(name: str) -> float:
            pace.step(f"{rate:,.0f} keys/s renewed: {name}", _offer_s(plan) + times.OFFER_EXTRA_S)
            return arms[name].offer(rate, _offer_s(plan)).percentile(0.99) * _MS_PER_NS

        for name, found in rounds.take(list(arms), plan.offer_repeats, offer, pace, spare=plan.offer_spare).items():
            tails[name] += found
        contest.finish()
        deltas = {name: delta_bytes(folder) for name, folder in where.items()}
        restores = {name: _restore_s(contest, name, keys, where[name], pace) for name in where}
    return _rows(tails, deltas, restores)


def _opened(contest: Contest, name: str, keys: int, backend: str, durable: Checkpoint | None) -> KeysArm:
    arm = KeysArm(name, keys, contest, backend, durable)
    contest.open(arm)
    return arm


def _restore_s(contest: Contest, name: str, keys: int, where: Path, pace: Pace) -> float:
    """How long a start takes that goes on from the checkpoint, less what one takes that begins with nothing."""
    took_s = []
    for label, durable in ((f"{name}-empty", None), (f"{name}-restored", Checkpoint(where, every_s=1.0))):
        pace.step(f"Starting {label}", times.OPEN_S)
        begun_s = time.monotonic()
        arm = _opened(contest, label, keys, name, durable)
        took_s.append(time.monotonic() - begun_s)
        arm.abort()
        contest.arms.remove(arm)
    return took_s[1] - took_s[0]


def delta_bytes(folder: Path) -> list[float]:
    """Of each part that holds changes only: bytes of the object per key in it."""
    store, found = open_store(str(folder), {}), []
    needed = ManifestLog(store).newest().manifest
    for name in sorted(set() if needed is None else needed.objects):
        data = store.get(name)
        keyed = [part for task in decode_part(data, name).tasks for each in task.snapshot.operators.values()
                 for part in each.keyed]  # fmt: skip
        if keyed and all(part.since is not None for part in keyed):
            columns = [column for part in keyed for column in (part.values, part.encoded) if column]
            changed = sum(len(codec.loads(column)) for column in columns)
            found += [len(data) / changed] if changed else []
    return found


def _rows(tails: dict[str, list[float]], deltas: dict[str, list[float]], restores: dict[str, float]) -> list[Row]:
    encoded = float(len(msgspec.msgpack.encode((KEYS, bytes(VALUE_BYTES)))))
    found = []
    for name in (MEMORY, DISK):
        case = CASE if name == MEMORY else f"{CASE},{name}"
        found += [
            make_row(
                case, "p99_ms", "ms", tails[name], better="lower", baseline=OFF, base=tails[OFF],
                bar=TAIL_BAR if name == MEMORY else None,
            ),
            make_row(
                case, "delta_bytes", "bytes/key", deltas[name], better="lower", baseline="encoded",
                base=[encoded] * len(deltas[name]), bar=DELTA_BAR if name == MEMORY else None,
            ),
            make_row(case, "restore_s", "s", [restores[name]], better="lower"),
        ]  # fmt: skip
    op_us = {name: [state_op_us(name) for _ in range(5)] for name in (MEMORY, DISK)}
    found.append(limit_row(CASE, "state_op_us", "us", op_us[MEMORY], OP_US_MAX))
    found.append(
        make_row(
            f"{CASE},{DISK}", "state_op_us", "us", op_us[DISK], better="lower", baseline=MEMORY, base=op_us[MEMORY]
        )
    )
    return found


def state_op_us(backend: str) -> float:
    """Processor time of a get and a set in a function, while cuts are made; on disk half the keys have to be."""
    settings = Settings(state_backend=backend, state_cache_keys=_OP_KEYS // 2)
    state = backends_of(settings, settings.key_groups)("renew")
    try:
        state.track(0)
        begun_ns = time.process_time_ns()
        for cut in range(1, _OPS // _OP_KEYS + 1):
            for first in range(0, _OP_KEYS, _TURN):
                cell: Any = state.cell()
                for key in range(first, first + _TURN):
                    renew(key, key, cell.at(key))
            state.cut(cut)
            state.release(cut)
        return (time.process_time_ns() - begun_ns) / _OPS / 1000
    finally:
        state.close()
