"""What a worker writes for one epoch: the state of each of its guarded tasks, as of the cut, in one object.

Keyed state is what has changed since an earlier part of the same task, which the manifest lists before this one; all
else is whole. Workers make parts and go on from them; whoever looks into a checkpoint or rewrites one reads them. Pure.
"""

from __future__ import annotations

import msgspec

from tailrace.checkpoint import sealing
from tailrace.checkpoint.errors import CheckpointCorruptError
from tailrace.state.snapshot import TaskSnapshot  # noqa: TC001 - msgspec reads the fields' types


class TaskPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """One task as of a cut."""

    snapshot: TaskSnapshot
    #: Whether ``close()`` has run: what it gave is among the task's own roots.
    finished: bool = False
    #: The offset of the next root of its own, and those that may have to be sent again, encoded.
    own_next: int = 0
    own: bytes = b""
    #: The number of the next values for the driver per operator; operator, number and values that it has yet to take.
    driver_next: dict[str, int] = {}
    driver: list[tuple[str, int, bytes]] = []
    #: Epochs that its sinks have prepared and not published, this one last.
    prepared: list[int] = []


class WorkerPart(msgspec.Struct, frozen=True):
    """All tasks of a worker that have something to write."""

    epoch: int
    tasks: list[TaskPart]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(WorkerPart).decode


def encode_part(part: WorkerPart) -> bytes:
    """The bytes of an object."""
    return sealing.seal(sealing.PART, _encode(part))


def decode_part(data: bytes, name: str) -> WorkerPart:
    """What an object holds; raises if it is not whole."""
    try:
        return _decode(sealing.unseal(sealing.PART, data, name))
    except msgspec.DecodeError as error:
        raise CheckpointCorruptError(
            f"{name} is whole but no part of a checkpoint: {error}.", "Was it written by Tailrace?"
        ) from error
