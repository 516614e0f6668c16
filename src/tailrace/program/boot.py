"""What a worker needs to join its query, and where it was started.

The query makes a ``Boot`` and gives it to its host (Spark's tasks, plain processes), which ships it to every worker it
starts; ``worker.main`` takes both. Plain data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.checkpoint.settings import Checkpoint
    from tailrace.config import Settings


@dataclass(frozen=True)
class Boot:
    """All a worker needs to join its query. Travels inside the closure that Spark ships; printing shows no secret."""

    query: str
    address: tuple[str, int]
    secret: bytes = field(repr=False)
    settings: Settings = field(repr=False)
    #: The query's name, for whoever shows what hosts it.
    name: str = ""
    #: Where checkpoints go, if the query has any.
    checkpoint: Checkpoint | None = field(default=None, repr=False)
    #: Where the driver serves the store of checkpoints, if workers cannot reach that themselves.
    relay: tuple[str, int] | None = None


@dataclass(frozen=True)
class WorkerLocation:
    """Where a worker was started: its slot, how often the slot was started before, its executor and host."""

    slot: int
    launch: int
    executor: str
    host: str
