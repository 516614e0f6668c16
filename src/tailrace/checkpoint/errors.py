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


class CheckpointNeededError(CheckpointError):
    """A savepoint was to be made of a query without a checkpoint, or restored into one."""

    exit_code = 2


class SavepointExistsError(CheckpointError):
    """There is something already where a savepoint was to be written."""

    exit_code = 2


class SavepointMissingError(CheckpointError):
    """There is neither a savepoint nor a checkpoint where one was to be restored from."""

    exit_code = 2


class SavepointConflictError(CheckpointError):
    """A savepoint was to be restored into a checkpoint that has a history of its own."""

    exit_code = 2


class SavepointFailedError(CheckpointError):
    """A savepoint could not be made, or not in time; the query goes on unless it has ended."""


class NotDividedError(CheckpointError):
    """Operators whose state cannot be dealt to another number of tasks."""

    exit_code = 2
