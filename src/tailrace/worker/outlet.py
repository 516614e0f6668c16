"""From a task's outputs to its outboxes: asks the edge's routing rule and files each bundle under its destination.

Each bundle that is filed gets a lineage of its own, derived from its parent's; the XOR of those goes to the ledger.
These loops are the hottest of the runtime after the user's own.
"""

from __future__ import annotations

from itertools import islice
from operator import xor
from typing import TYPE_CHECKING, Any

from tailrace.batch import Batch, mix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.routing import Router
    from tailrace.sending.outbox import Outbox

    from .steps import Sizes

#: A bundle of more values is cut, so that no frame grows without bound.
BUNDLE_VALUES_MAX = 256
_M64 = (1 << 64) - 1
_MULTIPLIER = 0x9E3779B97F4A7C15


class Outlet:
    """One edge at one sending task."""

    def __init__(
        self, edge: int, router: Router, boxes: list[Outbox], project: Callable[[Any], Any] | None = None
    ) -> None:
        self.edge = edge
        self.boxes = boxes
        self.tuples = 0
        self._router = router
        self._project = project
        self._tags = [mix(edge + 1, box.task + 1) for box in boxes]

    def emit(self, origin: Batch, values: list[Any], sizes: Sizes) -> list[int]:
        """File the outputs of a batch; gives per bundle of ``origin`` the XOR of what was filed for it."""
        if self._project is not None:
            values = list(map(self._project, values))
        shaped = Batch(values, sizes, origin.roots, origin.incs, origin.lineages)
        dests = self._router.choose(values, shaped)
        self.tuples += len(values)
        if self._router.several:
            values, sizes, dests = _spread(values, sizes, dests)
        if not origin.lineages:
            self._file_untracked(values, dests)
            return []
        if len(self.boxes) == 1:
            return self._file_to_one(origin, values, sizes)
        if sizes is None:
            return self._file_singles(origin, values, dests)
        return self._file_bundles(origin, values, sizes, dests)

    def _file_untracked(self, values: list[Any], dests: Sequence[int]) -> None:
        boxes = self.boxes
        if len(boxes) == 1:
            boxes[0].values.extend(values)
            return
        appends = [box.values.append for box in boxes]
        for value, dest in zip(values, dests, strict=True):
            appends[dest](value)

    def _file_to_one(self, origin: Batch, values: list[Any], sizes: Sizes) -> list[int]:
        """Every bundle goes the same way, so columns are taken over whole."""
        box, tag = self.boxes[0], self._tags[0]
        if sizes is not None and (min(sizes) == 0 or max(sizes) > BUNDLE_VALUES_MAX):
            return self._file_bundles(origin, values, sizes, [0] * len(values))
        derived = [(x := ((lineage ^ tag) * _MULTIPLIER) & _M64) ^ (x >> 29) for lineage in origin.lineages]
        box.values.extend(values)
        box.sizes.extend([1] * len(values) if sizes is None else sizes)
        box.roots.extend(origin.roots)
        box.incs.extend(origin.incs)
        box.lineages.extend(derived)
        return derived

    def _file_singles(self, origin: Batch, values: list[Any], dests: Sequence[int]) -> list[int]:
        boxes, tags = self.boxes, self._tags
        derived = [
            (x := ((lineage ^ tags[dest]) * _MULTIPLIER) & _M64) ^ (x >> 29)
            for lineage, dest in zip(origin.lineages, dests, strict=True)
        ]
        for value, dest, root, inc, lineage in zip(values, dests, origin.roots, origin.incs, derived, strict=True):
            box = boxes[dest]
            box.values.append(value)
            box.sizes.append(1)
            box.roots.append(root)
            box.incs.append(inc)
            box.lineages.append(lineage)
        return derived

    def _file_bundles(self, origin: Batch, values: list[Any], sizes: list[int], dests: Sequence[int]) -> list[int]:
        boxes, tags = self.boxes, self._tags
        pairs = iter(zip(dests, values, strict=True))
        xors = []
        for size, root, inc, parent in zip(sizes, origin.roots, origin.incs, origin.lineages, strict=True):
            groups: dict[int, list[Any]] = {}
            for dest, value in islice(pairs, size):
                group = groups.get(dest)
                if group is None:
                    groups[dest] = [value]
                else:
                    group.append(value)
            total = 0
            for dest, group in groups.items():
                x = ((parent ^ tags[dest]) * _MULTIPLIER) & _M64
                x ^= x >> 29
                box = boxes[dest]
                if len(group) > BUNDLE_VALUES_MAX:
                    total ^= _file_cut(box, group, root, inc, x)
                    continue
                total ^= x
                box.values.extend(group)
                box.sizes.append(len(group))
                box.roots.append(root)
                box.incs.append(inc)
                box.lineages.append(x)
            xors.append(total)
        return xors


def _file_cut(box: Outbox, group: list[Any], root: int, inc: int, lineage: int) -> int:
    """File a large bundle in pieces, each with a lineage of its own."""
    total = 0
    for begin in range(0, len(group), BUNDLE_VALUES_MAX):
        piece = group[begin : begin + BUNDLE_VALUES_MAX]
        derived = mix(lineage, begin + 1)
        total ^= derived
        box.values.extend(piece)
        box.sizes.append(len(piece))
        box.roots.append(root)
        box.incs.append(inc)
        box.lineages.append(derived)
    return total


def _spread(values: list[Any], sizes: Sizes, dests: Sequence[Any]) -> tuple[list[Any], list[int], list[int]]:
    """Write a value that goes to several tasks once for each of them."""
    counts = list(map(len, dests))
    steps = iter(counts)
    grown = counts if sizes is None else [sum(islice(steps, size)) for size in sizes]
    copies = [value for value, count in zip(values, counts, strict=True) for _ in range(count)]
    return copies, grown, [dest for several in dests for dest in several]


class Given:
    """What a batch gave, kept so that it can be sent again bundle by bundle without running anything twice."""

    __slots__ = ("_lineages", "_outputs")

    def __init__(self, lineages: list[int], outputs: list[tuple[Outlet, list[Any], Sizes]]) -> None:
        self._lineages = lineages
        self._outputs = outputs

    def index_of(self, lineage: int) -> int:
        """Where a bundle stands in the batch."""
        return self._lineages.index(lineage)

    def emit_again(self, index: int, root: int, inc: int) -> int:
        """File one bundle's outputs under a new incarnation; gives the XOR of what was filed."""
        lineage = self._lineages[index]
        total = 0
        for outlet, values, sizes in self._outputs:
            if sizes is None:
                part, size = values[index : index + 1], 1
            else:
                begin = sum(sizes[:index])
                size = sizes[index]
                part = values[begin : begin + size]
            if part:
                total ^= outlet.emit(Batch(part, [size], [root], [inc], [lineage]), list(part), [size])[0]
        return total


def combined(columns: list[list[int]]) -> list[int]:
    """XOR columns of equal length into one."""
    total = columns[0]
    for column in columns[1:]:
        total = list(map(xor, total, column))
    return total
