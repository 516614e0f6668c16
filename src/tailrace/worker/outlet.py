"""From a task's outputs to its outboxes: asks the edge's routing rule and files each bundle under its destination.

Each bundle that is filed gets a lineage of its own, derived from its parent's; the XOR of those goes to the ledger.
"""

from __future__ import annotations

from itertools import islice
from operator import xor
from typing import TYPE_CHECKING, Any

from tailrace.batch import Batch, mix
from tailrace.hot import file_bundles, file_values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.routing import Router
    from tailrace.sending.outbox import Outbox

    from .steps import Sizes

#: A bundle of more values is cut, so that no frame grows without bound.
BUNDLE_VALUES_MAX = 256


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
        self._tags = [mix(edge + 1, way) for way in range(1, len(boxes) + 1)]

    def emit(self, origin: Batch, values: list[Any], sizes: Sizes) -> list[int]:
        """File the outputs of a batch; gives per bundle of ``origin`` the XOR of what was filed for it."""
        if self._project is not None:
            values = list(map(self._project, values))
        elif self._router.unwraps:
            values = list(values)  # others read this list too, and a replay sends it again
        shaped = Batch(values, sizes, origin.roots, origin.incs, origin.lineages)
        dests = self._router.choose(values, shaped)
        self.tuples += len(values)
        if self._router.several:
            values, sizes, dests = _spread(values, sizes, dests)
        if not origin.lineages:
            file_values(values, dests, [box.values for box in self.boxes])
            return []
        columns = [(box.values, box.sizes, box.roots, box.incs, box.lineages) for box in self.boxes]
        return file_bundles(
            values, dests, sizes, origin.roots, origin.incs, origin.lineages, columns, self._tags, BUNDLE_VALUES_MAX
        )


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
