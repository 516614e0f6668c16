"""What a task emits by itself, in ticks and at its end, as roots of a partition of its own.

Only where the query has checkpoints. Such a root is tracked and sent again like a source's; because nobody could read
it again after a recovery, its outputs are kept until a cut comes whose mark has passed it, and are part of each cut.
Called by ``completion``; touches nothing but what it is given.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from tailrace.batch import HEAD_PLACES, root_id, root_lineage
from tailrace.batch import numbers as column
from tailrace.hot import weigh
from tailrace.metrics.histogram import Histogram
from tailrace.worker.exchange.outlet import EmittedOutputs, emit_all

if TYPE_CHECKING:
    from tailrace.acking.ledger import Ledger
    from tailrace.acking.replay import Replays
    from tailrace.worker.exchange.outlet import Outlet
    from tailrace.worker.execution.steps import Sizes


class OwnRoots:
    """The roots of one task."""

    def __init__(self, partition: int, ledger: Ledger) -> None:
        self.partition = partition
        self.ledger = ledger
        #: How long what hangs on them took; shown nowhere, since nothing was due.
        self.latencies = Histogram()
        #: Which are sent again for being late.
        self.replays: Replays | None = None
        self._next = 0
        self._kept: deque[tuple[int, int, list[Any], Sizes]] = deque()

    @property
    def next(self) -> int:
        """The offset of the next root."""
        return self._next

    def emit(self, outlet: Outlet, values: list[Any], sizes: Sizes, now_ns: int) -> None:
        """Emit what one edge gets as one root."""
        self._kept.append((self._next, outlet.edge, values, sizes))
        self._next += 1
        self._send(self._next - 1, outlet, values, sizes, now_ns)

    def _send(self, offset: int, outlet: Outlet, values: list[Any], sizes: Sizes, now_ns: int) -> None:
        root = root_id(self.partition, offset)
        heads = column((root, self.ledger.base_inc, root_lineage(root)))
        outputs = [(outlet, values, sizes)]
        left = emit_all(heads, outputs)
        given = EmittedOutputs(heads[2::HEAD_PLACES], outputs)
        self.ledger.emit(heads, left, None, now_ns, given, weigh(values, 0))

    def forget(self, mark: int) -> None:
        """A cut was made whose mark is this: what is below it is complete, and no recovery goes back before it."""
        while self._kept and self._kept[0][0] < mark:
            self._kept.popleft()

    def kept(self, mark: int) -> list[tuple[int, int, list[Any], Sizes]]:
        """Offset, edge, values and sizes of the roots from a mark on."""
        return [row for row in self._kept if row[0] >= mark]

    def restore(self, following: int, kept: list[tuple[int, int, list[Any], Sizes]]) -> None:
        """Go on behind a cut; what is kept is sent by ``send_again``."""
        self._next = following
        self._kept = deque(kept)
        self.ledger.skip_to(self.partition, kept[0][0] if kept else following)

    def resume(self, following: int, kept: list[tuple[int, int, list[Any], Sizes]]) -> None:
        """Go on in another worker, where all that is kept is complete."""
        self._next = following
        self._kept = deque(kept)
        self.ledger.skip_to(self.partition, following)

    def send_again(self, outlets: dict[int, Outlet], now_ns: int) -> None:
        """Send what is kept, after a recovery."""
        for offset, edge, values, sizes in self._kept:
            self._send(offset, outlets[edge], values, sizes, now_ns)
