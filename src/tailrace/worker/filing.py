"""The innermost loops of a worker: appending the bundles of a batch to the columns of their destinations.

In C where the extension was built (``native/hotmodule.c``), else the same in Python below; a test holds the two equal.
Called by ``outlet``; works on plain lists and keeps no state.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from tailrace.batch import mix

#: Values, sizes, roots, incarnations and lineages of one outbox.
Columns = tuple[list[Any], list[int], list[int], list[int], list[int]]


def file_bundles_in_python(
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

    Gives, per bundle, the XOR of the lineages that its pieces were given.
    """
    pairs = iter(zip(dests, values, strict=True))
    xors = []
    for size, root, inc, parent in zip(sizes or [1] * len(roots), roots, incs, lineages, strict=True):
        groups: dict[int, list[Any]] = {}
        for dest, value in islice(pairs, size):
            groups.setdefault(dest, []).append(value)
        total = 0
        for dest, group in groups.items():
            way = mix(parent, tags[dest])
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


def file_values_in_python(values: list[Any], dests: list[int], lists: list[list[Any]]) -> None:
    """File untracked values under their destinations."""
    for value, dest in zip(values, dests, strict=True):
        lists[dest].append(value)


try:
    from ._hot import file_bundles, file_values
except ImportError:
    file_bundles, file_values = file_bundles_in_python, file_values_in_python
