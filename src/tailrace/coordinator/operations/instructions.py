"""What the operation machine gives out: orders to workers, and changes of what the coordinator knows.

Carried out by ``OperationRequests``, in order, each before the machine goes on. Plain data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace import protocol


@dataclass(frozen=True)
class Tell:
    """Tell every worker that has the program."""

    message: protocol.FromCoordinator


@dataclass(frozen=True)
class Place:
    """A task is at another slot from now on."""

    stage: int
    task: int
    slot: int


@dataclass(frozen=True)
class SetTable:
    """The key groups of a stage go by another table from now on."""

    stage: int
    table: protocol.KeyTable


@dataclass(frozen=True)
class TellPolicies:
    """The newest choice of policies holds from now on, under this epoch: tell every worker."""

    epoch: int


@dataclass(frozen=True)
class TellWeights:
    """Tell every sender the weights of balanced edges again."""


@dataclass(frozen=True)
class Admit:
    """Let workers take part that have registered while the query runs."""


@dataclass(frozen=True)
class Dismiss:
    """Let workers go that have no tasks."""

    slots: tuple[int, ...]


@dataclass(frozen=True)
class GiveUp:
    """Take workers for lost that do not follow what was decided."""

    slots: tuple[int, ...]


Instruction = Tell | Place | SetTable | TellPolicies | TellWeights | Admit | Dismiss | GiveUp
