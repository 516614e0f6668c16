"""From a task's outputs to its outboxes: asks the edge's routing rule and files each bundle under its destination.

What a bundle gives takes the bundle's share of its root over; only what is passed on to nobody is acknowledged.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from tailrace.batch import HEAD_PLACES, Batch, from_bytes, mix, numbers, to_bytes
from tailrace.hot import file_bundles, file_values
from tailrace.topology.keys import keys_of

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Sequence

    from tailrace.hot import Columns
    from tailrace.routing import Router
    from tailrace.sending.outbox import Outbox
    from tailrace.worker.execution.steps import Sizes

#: A bundle of more values is cut, so that no frame grows without bound.
BUNDLE_VALUES_MAX = 256


class Outlet:
    """One edge at one sending task."""

    def __init__(
        self, edge: int, router: Router, boxes: list[Outbox], project: Callable[[Any], Any] | None, *, sole: bool
    ) -> None:
        self.edge = edge
        self.boxes = boxes
        self.tuples = 0
        self._project = project
        self._sole = sole
        self.branch([])
        self.switch(router)

    def branch(self, tasks: list[int]) -> None:
        """Let the rule name destinations beyond the tasks: sets of key groups, at the tasks that have them."""
        self._ways = self.boxes + [self.boxes[task] for task in tasks]
        self._tags = [mix(self.edge + 1, way) for way in range(1, len(self._ways) + 1)]

    def switch(self, router: Router) -> None:
        """Go by another rule from now on; it must cut bundles as the one before it did."""
        self._router = router
        for box in self.boxes:
            box.finished = getattr(router, "finished", None)

    @property
    def pending(self) -> list[int]:
        """Tuples of this task that each receiver has not finished, by its last word, and those that wait to be sent."""
        return [len(box.values) + box.sent - box.consumed for box in self.boxes]

    def reweigh(self, weights: Sequence[float]) -> None:
        """Let the edge's rule go by new weights, where it goes by any."""
        reweigh = getattr(self._router, "reweigh", None)
        if reweigh is not None:
            reweigh(weights)

    def counted(self) -> dict[int, int]:
        """Tuples per key group since this was last asked, where the edge's rule counts some."""
        counted = getattr(self._router, "counted", None)
        return {} if counted is None else counted()

    def emit(
        self, heads: array[int], values: list[Any], sizes: Sizes, shares: array[int] | None = None
    ) -> array[int] | None:
        """File the outputs of a batch with these heads; gives what is left of each bundle's share, None if nothing.

        A bundle's share is its lineage unless an edge before this one took some of it. A task's sole edge leaves
        nothing of a bundle that gave it something; where there are several, names may not hang on which of them got
        something, so each piece has its own and the rest is acknowledged.
        """
        if self._project is not None:
            values = keys_of(self._project, values)
        elif self._router.unwraps:
            values = list(values)  # others read this list too, and a replay sends it again
        dests = self._router.choose(values, Batch(values, sizes, heads))
        self.tuples += len(values)
        if self._router.several:
            values, sizes, dests = _spread(values, sizes, dests)
        if not heads:
            file_values(values, dests, [box.values for box in self._ways])
            return None
        columns = [(box.values, box.sizes, box.heads) for box in self.boxes]
        if len(self._ways) > len(columns):
            return self._file_beyond(values, dests, sizes, heads, shares, columns)
        return file_bundles(values, dests, sizes, heads, shares, self._sole, columns, self._tags, BUNDLE_VALUES_MAX)

    def _file_beyond(
        self,
        values: list[Any],
        dests: list[int],
        sizes: Sizes,
        heads: array[int],
        shares: array[int] | None,
        columns: list[Columns],
    ) -> array[int] | None:
        """File with columns of their own for destinations beyond the tasks: a bundle may go to one box two ways."""
        tasks = len(columns)
        columns += [([], [], numbers()) for _ in self._ways[tasks:]]
        left = file_bundles(values, dests, sizes, heads, shares, self._sole, columns, self._tags, BUNDLE_VALUES_MAX)
        for box, (filed, counts, named) in zip(self._ways[tasks:], columns[tasks:], strict=True):
            box.values += filed
            box.sizes += counts
            box.heads += named
        return left


def _spread(values: list[Any], sizes: Sizes, dests: Sequence[Any]) -> tuple[list[Any], list[int], list[int]]:
    """Write a value that goes to several tasks once for each of them."""
    counts = list(map(len, dests))
    steps = iter(counts)
    grown = counts if sizes is None else [sum(islice(steps, size)) for size in sizes]
    copies = [value for value, count in zip(values, counts, strict=True) for _ in range(count)]
    return copies, grown, [dest for several in dests for dest in several]


#: What goes out on one edge: the values and how many each bundle gave.
Output = tuple[Outlet, list[Any], "Sizes"]
#: Outputs that are remembered, as plain data: the lineages of the bundles, and what they gave on the edge of a number.
EmittedColumns = tuple[bytes, list[tuple[int, list[Any], "Sizes"]]]


class EmittedOutputs:
    """What a batch gave, kept so that it can be sent again bundle by bundle without running anything twice."""

    __slots__ = ("_outputs", "lineages")

    def __init__(self, lineages: array[int], outputs: list[Output]) -> None:
        #: The bundles of the batch, by name.
        self.lineages = lineages
        self._outputs = outputs

    def columns(self) -> EmittedColumns:
        """Tell it as plain columns, with the numbers of edges in place of this worker's ends of them."""
        return to_bytes(self.lineages), [(outlet.edge, values, sizes) for outlet, values, sizes in self._outputs]

    def index_of(self, lineage: int) -> int:
        """Where a bundle stands in the batch."""
        return self.lineages.index(lineage)

    def emit_again(self, index: int, root: int, inc: int) -> int:
        """File one bundle's outputs under a new incarnation; gives what is left of its share."""
        lineage = self.lineages[index]
        outputs: list[Output] = []
        for outlet, values, sizes in self._outputs:
            if sizes is None:
                outputs.append((outlet, values[index : index + 1], None))
            else:
                begin = sum(sizes[:index])
                outputs.append((outlet, values[begin : begin + sizes[index]], [sizes[index]]))
        left = emit_all(numbers((root, inc, lineage)), outputs)
        return 0 if left is None else left[0]


def emitted_from(columns: EmittedColumns, outlets: dict[int, Outlet]) -> EmittedOutputs:
    """Remember outputs that were told as columns, to be sent again through these outlets."""
    lineages, outputs = columns
    return EmittedOutputs(from_bytes(lineages), [(outlets[edge], values, sizes) for edge, values, sizes in outputs])


def emit_all(heads: array[int], outputs: list[Output]) -> array[int] | None:
    """File what a batch gave on all its edges; gives what is left of each bundle's share, None if nothing."""
    if not outputs:
        return heads[2::HEAD_PLACES]
    shares: array[int] | None = None
    for outlet, values, sizes in outputs:
        shares = outlet.emit(heads, values, sizes, shares)
    return shares
