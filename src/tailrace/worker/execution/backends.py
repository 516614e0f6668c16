"""Which backend keeps the state of keyed operators: the one in memory.

``build`` asks for a factory per task, ``chain`` calls it per operator. Another backend is chosen here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.routing.fields import GroupIndex
from tailrace.state.backend import ValueCodec
from tailrace.state.memory import MemoryBackend
from tailrace.transport import codec

if TYPE_CHECKING:
    from tailrace.state.backend import BackendFactory, StateBackend

_CODEC = ValueCodec(codec.dumps, codec.loads)


def memory_backends(key_groups: int) -> BackendFactory:
    """Keep states in memory; the keys of the stage are spread over so many groups."""
    group_of = GroupIndex(key_groups).__getitem__

    def backend_of(operator: str) -> StateBackend:
        del operator  # a backend on disk has a folder for each
        return MemoryBackend(_CODEC, group_of)

    return backend_of
