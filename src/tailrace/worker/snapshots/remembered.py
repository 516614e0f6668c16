"""What a deduplicator remembers of a task's outputs, as columns by edge: plain data that finds its outlets again.

Called by ``task_state`` for each generation of a deduplicator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.transport import codec
from tailrace.worker.exchange.outlet import emitted_from

if TYPE_CHECKING:
    from array import array

    from tailrace.worker.exchange.outlet import EmittedOutputs, Outlet


def encode_outputs(remembered: list[EmittedOutputs]) -> bytes:
    """Encode outputs of several batches together, with the numbers of their edges."""
    return codec.dumps([each.columns() for each in remembered])


def decode_outputs(data: bytes, outlets: dict[int, Outlet]) -> list[tuple[array[int], Any]]:
    """Decode outputs, to be sent again through these outlets, each with the lineages of the bundles that gave it."""
    found = [emitted_from(columns, outlets) for columns in codec.loads(data)]
    return [(each.lineages, each) for each in found]
