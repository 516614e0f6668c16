"""Named errors of checkpoints: what is wrong with one, which is used instead, and what to do."""

from __future__ import annotations

from tailrace.errors import TailraceError


class CheckpointError(TailraceError):
    """Base: a checkpoint cannot be written, read or used."""

    exit_code = 10


class CheckpointCorruptError(CheckpointError):
    """An object of a checkpoint is cut off, changed, or missing."""


class NoCheckpointError(CheckpointError):
    """There is no checkpoint where one was to be read."""


class CheckpointVersionError(CheckpointError):
    """A checkpoint was written in a newer format than this release reads."""


class ForeignCheckpointError(CheckpointError):
    """The folder holds checkpoints of another query."""


class CheckpointTakenOverError(CheckpointError):
    """A later start of the query writes to the same checkpoint; this one must not go on."""


class CheckpointsFailedError(CheckpointError):
    """So many checkpoints in a row could not be written that the query does not go on without them."""


class NotReplayableError(CheckpointError):
    """A source cannot be read again from an offset, so that nothing of it can be recovered."""

    exit_code = 2


class TopologyChangedError(CheckpointError):
    """A checkpoint is of a topology whose operators with state are not those of the query."""

    exit_code = 2
