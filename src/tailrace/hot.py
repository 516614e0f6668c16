"""The innermost loops of a worker: filing bundles, keeping the ledger of open roots, counting latencies.

In C where the extension was built (``native/hotmodule.c``), else the same in Python below; a test holds the two equal.
Called by ``worker.outlet``, ``acking.ledger`` and ``metrics.histogram``; works on plain lists and dicts only.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from .batch import mix

__all__ = ["count_buckets", "enter", "file_bundles", "file_values", "settle"]

#: Values, sizes, roots, incarnations and lineages of one outbox.
Columns = tuple[list[Any], list[int], list[int], list[int], list[int]]
#: An open root in a ledger: what is left of it, its incarnation, when it was due and sent, and what it gave.
Open = list[Any]
OPEN_XOR, OPEN_INC, OPEN_DUE, OPEN_SENT, OPEN_GIVEN, OPEN_INDEX = range(6)


def file_bundles_py(
    values: list[Any],
    dests: list[int],
    sizes: list[int] | None,
    roots: list[int],
    incs: list[int],
    lineages: list[int],
    columns: list[Columns],
    tags: list[int],
    piece_max: int,
) -> list[int]:
    """File every bundle under its destinations, in pieces of ``piece_max`` values at most.

    The first destination that a bundle's values name is its first way, and so on. A lineage is derived from the way,
    not from the destination, so that a replay that shuffle deals to other tasks still goes by the same names. Gives,
    per bundle, the XOR of the lineages that its pieces were given.
    """
    pairs = iter(zip(dests, values, strict=True))
    xors = []
    for size, root, inc, parent in zip(sizes or [1] * len(roots), roots, incs, lineages, strict=True):
        groups: dict[int, list[Any]] = {}
        for dest, value in islice(pairs, size):
            groups.setdefault(dest, []).append(value)
        total = 0
        for tag, (dest, group) in zip(tags, groups.items(), strict=False):
            way = mix(parent, tag)
            for piece, begin in enumerate(range(0, len(group), piece_max)):
                part = group[begin : begin + piece_max]
                lineage = mix(way, piece) if piece else way
                total ^= lineage
                _append(columns[dest], part, root, inc, lineage)
        xors.append(total)
    return xors


def _append(columns: Columns, part: list[Any], root: int, inc: int, lineage: int) -> None:
    columns[0].extend(part)
    columns[1].append(len(part))
    columns[2].append(root)
    columns[3].append(inc)
    columns[4].append(lineage)


def file_values_py(values: list[Any], dests: list[int], lists: list[list[Any]]) -> None:
    """File untracked values under their destinations."""
    for value, dest in zip(values, dests, strict=True):
        lists[dest].append(value)


def enter_py(
    opened: dict[int, Open], roots: list[int], xors: list[int], dues_ns: list[int], now_ns: int, inc: int, given: Any
) -> list[int]:
    """Enter fresh roots; gives the latencies of those for which nothing was sent, so that they are complete."""
    done = []
    for index, (root, xor, due_ns) in enumerate(zip(roots, xors, dues_ns, strict=True)):
        if xor:
            opened[root] = [xor, inc, due_ns, now_ns, given, index]
        else:
            done.append(now_ns - due_ns)
    return done


def settle_py(opened: dict[int, Open], roots: list[int], incs: list[int], xors: list[int], now_ns: int) -> list[int]:
    """XOR acks into open roots; gives the latencies of those that are complete, which are closed."""
    done = []
    for root, inc, xor in zip(roots, incs, xors, strict=True):
        entry = opened.get(root)
        if entry is None or entry[OPEN_INC] != inc:
            continue
        left = entry[OPEN_XOR] ^ xor
        if left:
            entry[OPEN_XOR] = left
        else:
            done.append(now_ns - entry[OPEN_DUE])
            del opened[root]
    return done


def count_buckets_py(counts: dict[int, int], values: list[int]) -> None:
    """Count values into buckets: five bits below the leading one, over the leading one's position."""
    for value in values:
        shift = value.bit_length() - 6
        bucket = (shift << 5) + (value >> shift) if shift > 0 and value > 0 else max(value, 0)
        counts[bucket] = counts.get(bucket, 0) + 1


try:
    from ._hot import count_buckets, enter, file_bundles, file_values, settle
except ImportError:
    NATIVE = False
    count_buckets, enter, settle = count_buckets_py, enter_py, settle_py
    file_bundles, file_values = file_bundles_py, file_values_py
else:
    NATIVE = True
