"""What can go wrong with state, told with what was expected and what to do."""

from __future__ import annotations

from tailrace.errors import TailraceError


class CutError(TailraceError):
    """A cut was named that the backend does not know, or no longer keeps."""


class StateStorageError(TailraceError):
    """State that is kept on disk cannot be written or read; the query ends, because it could go on with less only."""

    exit_code = 5


class StateExtraMissingError(TailraceError):
    """The library that keeps state on disk is not installed."""

    exit_code = 6


class StateDeclarationError(TailraceError):
    """Kinds of state are declared in a way that cannot be kept."""

    exit_code = 2


class StateTypeError(TailraceError):
    """A value is of another type than its state was declared with."""

    exit_code = 4


class StateUseError(TailraceError):
    """A declared state was used where no key is at hand."""

    exit_code = 4


class SnapshotError(TailraceError):
    """Bytes that should be a snapshot are none, or were cut off or changed."""


class SnapshotVersionError(SnapshotError):
    """A snapshot was written by a newer version, in a format that this one does not know."""


#: Those that end a query of themselves: made again on the driver, by their names.
RAISED_BY_WORKERS: list[type[TailraceError]] = [StateStorageError, StateExtraMissingError]
