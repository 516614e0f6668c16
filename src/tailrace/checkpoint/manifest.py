"""What a checkpoint consists of: epoch, marks, and for every task the objects that its state is put together from.

A manifest is plain data, written by the coordinator and read by whoever resumes, looks inside or retires objects.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tailrace.checkpoint import sealing
from tailrace.checkpoint.errors import CheckpointCorruptError
from tailrace.protocol import KeyTable  # noqa: TC001 - msgspec reads the fields' types


class PartitionRow(msgspec.Struct, frozen=True):
    """A partition that roots come from: of a source by its name, or of a task that is the source of its ticks."""

    number: int
    operator: str
    name: str
    #: Everything below is complete (M), and the next offset when the source was cut (P).
    mark: int = 0
    offset: int = 0


class TaskRow(msgspec.Struct, frozen=True):
    """A task with state: the operator its stage begins with, its number, and its objects, a base first."""

    operator: str
    task: int
    objects: tuple[str, ...]


class OperatorRow(msgspec.Struct, frozen=True):
    """An operator of the topology, as far as state hangs on it."""

    name: str
    verb: str
    tasks: int
    stateful: bool


class Manifest(msgspec.Struct, frozen=True):
    """One entry of the log: a durable epoch, or a successor that takes the last one over."""

    #: The entry's place in the log, and what kind it is.
    number: int
    kind: Literal["checkpoint", "takeover", "savepoint"]
    query: str
    #: Starts of the query on this checkpoint, and deployments in this one.
    attempt: int
    execution: int
    epoch: int
    created_unix_s: float
    #: Whether nothing was in flight, so that it may be resumed with other numbers of tasks.
    drained: bool
    operators: tuple[OperatorRow, ...]
    partitions: tuple[PartitionRow, ...]
    tasks: tuple[TaskRow, ...]
    #: Who has which key groups, per operator whose groups have moved.
    tables: dict[str, KeyTable]
    #: Objects with what the driver holds, oldest first.
    driver: tuple[str, ...] = ()
    #: Per operator and task, joined by a slash, the number of its next message to the driver.
    numbers: dict[str, int] = {}
    key_groups: int = 0
    #: Between stages, in their order: operator and port, the operator that the next stage begins with, the grouping.
    #: None where the release that wrote it did not say.
    edges: tuple[tuple[str, str, str, str], ...] | None = None
    #: What of the policy the ways of roots hang on, and the node and worker of every task by which streams keep near:
    #: roots that are sent again must go to the tasks that know them. Empty where the release that wrote it did not say.
    routes: dict[str, str] = {}
    origins: tuple[tuple[tuple[int, int], ...], ...] = ()
    #: The savepoint that the checkpoint began from, by the digest of its manifest.
    restored_from: str = ""
    #: The highest epoch that an earlier attempt has begun, as far as its objects tell: no number is given twice.
    begun: int = 0

    @property
    def objects(self) -> set[str]:
        """Every object that this entry needs."""
        return {name for row in self.tasks for name in row.objects} | set(self.driver)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Manifest).decode


def write_manifest(manifest: Manifest) -> bytes:
    """The bytes of a manifest."""
    return sealing.seal(sealing.MANIFEST, _encode(manifest))


def read_manifest(data: bytes, name: str) -> Manifest:
    """A manifest from its bytes; raises if they are not whole."""
    content = sealing.unseal(sealing.MANIFEST, data, name)
    try:
        return _decode(content)
    except msgspec.DecodeError as error:
        raise CheckpointCorruptError(
            f"{name} is whole but no manifest: {error}.", "Was it written by Tailrace?"
        ) from error
