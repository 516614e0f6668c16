"""The innermost loops of a worker: filing bundles, keeping open roots, looking keys up, counting.

In C where the extension was built (``native/hot*.c``), else the same in Python below; a test holds the two equal.
Called by ``worker.exchange``, ``worker.execution``, ``acking``, ``routing.fields`` and ``metrics.histogram``; works on
plain lists, dicts and arrays only.
"""

from __future__ import annotations

import gc
import sys
from itertools import islice
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from . import batch as _batch
from .batch import HEAD_PLACES, OFFSET_BITS, OFFSET_MAX, REPLAY_MAX, mix, numbers, root_id, root_lineage

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator, Sequence

__all__ = [
    "OpenRoots", "by_partition", "count_buckets", "count_keys", "file_bundles", "file_values", "has_kind", "look_up",
    "root_heads", "survey", "weigh",
]  # fmt: skip

#: Values, sizes and heads of one outbox.
Columns = tuple[list[Any], list[int], "array[int]"]


def _heads(column: array[int]) -> Iterator[tuple[int, int, int]]:
    return zip(column[0::HEAD_PLACES], column[1::HEAD_PLACES], column[2::HEAD_PLACES], strict=True)


def file_bundles_py(
    values: list[Any],
    dests: list[int],
    sizes: list[int] | None,
    heads: array[int],
    shares: array[int] | None,
    last: bool,
    columns: list[Columns],
    tags: list[int],
    piece_max: int,
) -> array[int] | None:
    """File every bundle under its destinations, in pieces of ``piece_max`` values at most.

    The first destination that a bundle's values name is its first way, and so on. A lineage is derived from the way,
    not from the destination, so that a replay that shuffle deals to other tasks still goes by the same names. Where
    this is the ``last`` edge, a bundle's last piece takes what is left of the bundle's share, which is its lineage
    unless ``shares`` say otherwise. Gives what is left of each share; None when nothing is.
    """
    pairs = iter(zip(dests, values, strict=True))
    left = []
    given = shares if shares is not None else heads[2::HEAD_PLACES]
    for size, share, head in zip(sizes or [1] * len(given), given, _heads(heads), strict=True):
        groups: dict[int, list[Any]] = {}
        for dest, value in islice(pairs, size):
            groups.setdefault(dest, []).append(value)
        rest = share
        for at, (dest, part, name) in enumerate(pieces := _pieces(groups, head[2], tags, piece_max), 1):
            lineage = rest if last and at == len(pieces) else name
            rest ^= lineage
            columns[dest][0].extend(part)
            columns[dest][1].append(len(part))
            columns[dest][2].extend((head[0], head[1], lineage))
        left.append(rest)
    return numbers(left) if any(left) else None


def _pieces(
    groups: dict[int, list[Any]], parent: int, tags: list[int], piece_max: int
) -> list[tuple[int, list[Any], int]]:
    """Cut a bundle's groups into pieces: destination, values and name of each."""
    pieces = []
    for tag, (dest, group) in zip(tags, groups.items(), strict=False):
        way = mix(parent, tag)
        for number, begin in enumerate(range(0, len(group), piece_max)):
            pieces.append((dest, group[begin : begin + piece_max], mix(way, number) if number else way))
    return pieces


def file_values_py(values: list[Any], dests: list[int], lists: list[list[Any]]) -> None:
    """File untracked values under their destinations."""
    for value, dest in zip(values, dests, strict=True):
        lists[dest].append(value)


def root_heads_py(partition: int, offsets: Sequence[int], inc: int) -> array[int]:
    """Make the heads of fresh roots of a partition."""
    heads = numbers()
    for offset in offsets:
        root = root_id(partition, offset)
        heads.extend((root, inc, root_lineage(root)))
    return heads


def survey_py(heads: array[int]) -> tuple[int, int, int]:
    """Tell the lowest and the highest root, and the incarnation of all or -1 when they differ."""
    roots, incs = heads[0::HEAD_PLACES], set(heads[1::HEAD_PLACES])
    return min(roots, default=(1 << 64) - 1), max(roots, default=0), incs.pop() if len(incs) == 1 else -1


def by_partition_py(heads: array[int]) -> dict[int, array[int]]:
    """Divide heads by the partition of their roots."""
    parts: dict[int, array[int]] = {}
    for head in _heads(heads):
        parts.setdefault(head[0] >> OFFSET_BITS, numbers()).extend(head)
    return parts


def look_up_py(table: dict[Any, int], keys: Sequence[Any]) -> list[int]:
    """Look keys up in a dict, which may know what to do about missing ones."""
    return list(map(table.__getitem__, keys))


def count_keys_py(counts: dict[Any, int], keys: list[Any], into: list[Any]) -> None:
    """Count each key up and append it with its count; on an error ``into`` ends where the offending key was."""
    for key in keys:
        count = counts[key] = counts.get(key, 0) + 1
        into.append((key, count))


def patience_ns(replays: int, grace: int, timeout_ns: int, longest_ns: int) -> int:
    """How long after its last sending a root is overdue: twice as long after each replay beyond the grace."""
    return min(max(timeout_ns, longest_ns), timeout_ns << min(max(0, replays - grace), 64))


def has_kind_py(values: Sequence[Any], kind: type) -> bool:
    """Tell whether one of some values is of a type itself."""
    return kind in set(map(type, values))


class OpenRootsPy:
    """Open roots of one source task, oldest first: what is left of each, its incarnation, when due and sent, its gift.

    What is left of a root at first is its lineage; acks are XORed in, and the root is complete when nothing is left.
    """

    def __init__(self) -> None:
        self._open: dict[int, list[Any]] = {}
        #: Bytes of what was given for the open roots.
        self.bytes = 0
        #: When the newest of the complete roots was first sent.
        self.done_sent_ns = 0

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, root: object) -> bool:
        return root in self._open

    def enter(
        self,
        heads: array[int],
        done: array[int] | None,
        dues_ns: Sequence[int] | None,
        now_ns: int,
        given: Any,
        given_bytes: int = 0,
    ) -> list[int]:
        """Enter fresh roots, of which ``done`` is acknowledged already; gives the latencies of the complete ones."""
        latencies = []
        bundles = len(heads) // HEAD_PLACES
        share = given_bytes // bundles if bundles else 0
        rows = zip(_heads(heads), done or [0] * bundles, dues_ns or [now_ns] * bundles, strict=True)
        for index, ((root, inc, lineage), acked, due_ns) in enumerate(rows):
            if root in self._open:
                raise ValueError(f"root {root} is open already")
            if lineage == acked:
                latencies.append(now_ns - due_ns)
            else:
                self._open[root] = [lineage ^ acked, inc, due_ns, now_ns, given, index, now_ns, share]
                self.bytes += share
        return latencies

    def settle(self, heads: array[int], now_ns: int, spent: list[int] | None) -> tuple[list[int], array[int] | None]:
        """XOR acks in; gives the latencies of the roots they complete, and the acks of other incarnations.

        Appends to ``spent``, where there is one, how long ago each of those roots was first sent.
        """
        latencies, strays = [], numbers()
        for root, inc, lineage in _heads(heads):
            entry = self._open.get(root)
            if entry is None:
                continue
            if entry[1] != inc:
                strays.extend((root, inc, lineage))
                continue
            entry[0] ^= lineage
            if not entry[0]:
                latencies.append(now_ns - entry[2])
                if spent is not None:
                    spent.append(now_ns - entry[3])
                self.close(root)
        return latencies, strays or None

    def sent_before(self, before_ns: int, limit: int) -> list[int]:
        """List the roots last sent before a time, oldest first."""
        return list(islice((root for root, entry in self._open.items() if entry[6] < before_ns), limit))

    def overdue(
        self, now_ns: int, before_ns: int, timeout_ns: int, longest_ns: int, limit: int, replays_max: int, grace: int
    ) -> list[int]:
        """List the roots last sent before a time and longer ago than a timeout, oldest first.

        Of those that were replayed less than ``replays_max`` times. With each replay beyond the ``grace`` a root's
        timeout doubles, up to the longest wait.
        """
        late: list[int] = []
        for root, entry in self._open.items():
            if len(late) >= limit or now_ns - entry[3] <= timeout_ns:
                break  # those behind it are younger
            replays = entry[1] & REPLAY_MAX
            wait_ns = patience_ns(replays, grace, timeout_ns, longest_ns)
            if replays < replays_max and entry[6] < before_ns and now_ns - entry[6] > wait_ns:
                late.append(root)
        return late

    def ages(self, now_ns: int) -> list[int]:
        """Tell how long ago each open root was first sent."""
        return [now_ns - entry[3] for entry in self._open.values()]

    def look(self, root: int) -> tuple[int, int, int, int, Any, int]:
        """Tell what is left of a root, its incarnation, when it was due and first sent, its gift and index there."""
        left, inc, due_ns, sent_ns, given, index, _, _ = self._open[root]
        return left, inc, due_ns, sent_ns, given, index

    def restart(self, root: int, inc: int, left: int, now_ns: int) -> None:
        """Begin another incarnation of a root."""
        entry = self._open[root]
        entry[0], entry[1], entry[6] = left, inc, now_ns

    def close(self, root: int) -> None:
        """Take a root out."""
        entry = self._open.pop(root)
        self.bytes -= entry[7]
        self.done_sent_ns = max(self.done_sent_ns, entry[3])

    def lows(self) -> dict[int, int]:
        """Tell the lowest open offset of each partition."""
        lows: dict[int, int] = {}
        for root in self._open:
            partition, offset = root >> OFFSET_BITS, root & OFFSET_MAX
            lows[partition] = min(lows.get(partition, OFFSET_MAX), offset)
        return lows


def count_buckets_py(counts: dict[int, int], values: list[int]) -> None:
    """Count values into buckets: five bits below the leading one, over the leading one's position."""
    for value in values:
        shift = value.bit_length() - 6
        bucket = (shift << 5) + (value >> shift) if shift > 0 and value > 0 else max(value, 0)
        counts[bucket] = counts.get(bucket, 0) + 1


#: How deep and how far an object is followed, and how many items of a long container stand for all.
_DEPTH_MAX, _VISITS_MAX, _SAMPLES = 4, 64, 16
_NUMBER_BYTES, _CONTAINER_BYTES, _PLACE_BYTES, _ENTRY_BYTES = 32, 64, 8, 40
_SINGLE = frozenset({int, float, bool, type(None)})
_PLAIN = _SINGLE | {str, bytes}
_PASSED_OVER = (type, ModuleType, FunctionType)


class _Scale:
    """Weighs one value; ``native/hot_weigh.c`` says how."""

    def __init__(self) -> None:
        self._visits_left = _VISITS_MAX

    def weigh(self, value: Any, depth: int = 0) -> int:
        kind = type(value)
        if kind is str or kind is bytes:
            return sys.getsizeof(value)
        if kind not in _SINGLE and depth < _DEPTH_MAX:
            self._visits_left -= 1
            if self._visits_left > 0:
                return self._followed(value, depth + 1)
        return _NUMBER_BYTES

    def _followed(self, value: Any, depth: int) -> int:
        if type(value) in {tuple, list}:
            step = max(1, len(value) // _SAMPLES)
            sample = [self.weigh(item, depth) for item in value[: step * _SAMPLES : step]]
            return _CONTAINER_BYTES + len(value) * _PLACE_BYTES + _scaled(sample, len(value))
        if type(value) is dict:
            pairs = islice(value.items(), _SAMPLES)
            sample = [self.weigh(key, depth) + self.weigh(item, depth) for key, item in pairs]
            return _CONTAINER_BYTES + len(value) * _ENTRY_BYTES + _scaled(sample, len(value))
        try:
            found = int(value.__sizeof__())
        except Exception:  # noqa: BLE001 - a user's object may say anything
            found = _NUMBER_BYTES
        for child in gc.get_referents(value):
            if self._visits_left <= 0:
                break
            if not isinstance(child, _PASSED_OVER):
                found += self.weigh(child, depth)
        return found


def _scaled(sample: list[int], count: int) -> int:
    return sum(sample) * count // len(sample) if sample else 0


def weigh_py(values: list[Any], first: int) -> int:
    """Tell about how many bytes the values of a list take in memory, from a place on."""
    rest = values[first:] if first else values
    if set(map(type, rest)) <= _PLAIN:
        return _PLACE_BYTES * len(rest) + sum(map(sys.getsizeof, rest))
    return sum(_PLACE_BYTES + _Scale().weigh(value) for value in rest)


try:
    from ._hot import (
        OpenRoots,
        by_partition,
        count_buckets,
        count_keys,
        file_bundles,
        file_values,
        has_kind,
        look_up,
        root_heads,
        survey,
        weigh,
    )
except ImportError:
    NATIVE = False
    OpenRoots = OpenRootsPy  # type: ignore[misc,assignment]
    by_partition, root_heads, survey = by_partition_py, root_heads_py, survey_py
    count_buckets, count_keys, has_kind, look_up = count_buckets_py, count_keys_py, has_kind_py, look_up_py
    file_bundles, file_values, weigh = file_bundles_py, file_values_py, weigh_py
else:
    NATIVE = True

#: Whether the modules of native/compiled.txt were compiled; else they run as the Python that they are.
COMPILED = Path(_batch.__file__).suffix != ".py"
