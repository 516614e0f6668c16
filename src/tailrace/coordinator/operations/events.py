"""What the operation machine takes in: something was asked for, a worker spoke, opened or was lost, time has passed.

Made by ``OperationRequests`` from what the coordinator's brain hands over. Plain data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace import protocol
    from tailrace.coordinator.operations.operation import Operation


@dataclass(frozen=True)
class Asked:
    """Somebody wants an operation to be carried out."""

    operation: Operation


@dataclass(frozen=True)
class Heard:
    """A worker has said something about the operation under way."""

    slot: int
    message: protocol.Cleared | protocol.Installed | protocol.Switched | protocol.Held | protocol.OperationFailed


@dataclass(frozen=True)
class Opened:
    """A worker has opened its tasks."""

    slot: int


@dataclass(frozen=True)
class Lost:
    """A worker was lost."""

    slot: int


@dataclass(frozen=True)
class Stopping:
    """The query is about to end: nothing more begins."""

    reason: str


@dataclass(frozen=True)
class Passed:
    """Time has passed: deadlines and what waits for its turn are looked at."""


Event = Asked | Heard | Opened | Lost | Stopping | Passed
