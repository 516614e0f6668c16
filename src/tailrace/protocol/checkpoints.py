"""What is said about checkpoints: one epoch after the other through its steps. Decision 033 has the argument."""

from __future__ import annotations

import msgspec


class Durability(msgspec.Struct, frozen=True):
    """Where a deployment begins that has checkpoints: the cut it goes back to, 0 for none, and what it is called by."""

    #: Starts of the query on its checkpoint, and deployments in this one.
    attempt: int
    execution: int
    epoch: int
    #: Per task of the worker that has state: stage, number, and the objects that it is put together from.
    objects: list[tuple[int, int, list[str]]] = []
    #: Per partition how far its source had read at the cut: so far it reads even if it is to read nothing more.
    offsets: dict[int, int] = {}
    #: What tells the query's checkpoint from others.
    checkpoint: str = ""


class HoldInput(msgspec.Struct, tag=True):
    """Coordinator: begin no root that is not owed; tell when nothing of yours is open, for a cut of this epoch."""

    epoch: int


class InputDrained(msgspec.Struct, tag=True):
    """Worker: nothing is, and nothing will be until you say so."""

    epoch: int


class ReleaseInput(msgspec.Struct, tag=True):
    """Coordinator: read and tick as before."""


class AskMarks(msgspec.Struct, tag=True):
    """Coordinator: an epoch is about to be cut; tell below which offsets everything is complete."""

    epoch: int


class CutMarks(msgspec.Struct, tag=True):
    """Worker: below these."""

    epoch: int
    marks: dict[int, int]


class PrepareCut(msgspec.Struct, tag=True):
    """Coordinator: these are the marks of the epoch, for when it reaches you."""

    epoch: int
    marks: dict[int, int]


class CutPrepared(msgspec.Struct, tag=True):
    """Worker: I have them."""

    epoch: int


class Cut(msgspec.Struct, tag=True):
    """Coordinator: everyone has them; cut."""

    epoch: int


class PartWritten(msgspec.Struct, tag=True):
    """Worker: what my tasks are as of the cut is in this object."""

    epoch: int
    name: str
    size_bytes: int
    #: Stage and number of each task in it, whether it needs no earlier part, and whether it tells of no key.
    tasks: list[tuple[int, int, bool, bool]]
    #: Per partition how far its source had read.
    offsets: dict[int, int]
    #: Per operator and task, joined by a slash, the number of its next message to the driver.
    numbers: dict[str, int]


class CutFailed(msgspec.Struct, tag=True):
    """Worker: the part could not be written, and why."""

    epoch: int
    message: str
    hint: str


class Committed(msgspec.Struct, tag=True):
    """Worker: the sinks of my tasks have published this epoch and all before it."""

    epoch: int


class MergeParts(msgspec.Struct, tag=True):
    """Coordinator: make one object of each of these runs of parts, in the background, and name it by this epoch."""

    attempt: int
    execution: int
    epoch: int
    #: Stage and number of each task, and its parts, oldest first.
    tasks: list[tuple[int, int, list[str]]]


class PartsMerged(msgspec.Struct, tag=True):
    """Worker: this object does what the parts of that order do; no name if it could not be made."""

    execution: int
    #: As in the order; no epoch that is under way.
    ordered: int
    name: str


class EpochDurable(msgspec.Struct, tag=True):
    """Coordinator: the epoch is published; nothing goes back before it."""

    epoch: int


class Follow(msgspec.Struct, tag=True):
    """Coordinator: hold the state of these tasks of other workers as of an epoch that is durable, and of no others."""

    epoch: int
    #: Stage, number and objects of each.
    tasks: list[tuple[int, int, list[str]]]
    #: Stage, number, one of these objects, and the parts that it was merged of.
    merged: list[tuple[int, int, str, list[str]]] = []


class Followed(msgspec.Struct, tag=True):
    """Worker: I hold what I was told to, as of this epoch."""

    epoch: int
