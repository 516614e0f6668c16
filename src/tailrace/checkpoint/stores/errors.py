"""What can go wrong at a store. Callers count failures and ask ``transient`` whether to try again.

Each message says what was expected and what was found at which address; the address never carries credentials.
"""

from __future__ import annotations

from ...errors import TailraceError


class StoreError(TailraceError):
    """Base: a store did not do what it was asked."""

    exit_code = 4
    #: Whether the same request may succeed a moment later, with nobody changing anything.
    transient = False


class StoreFullError(StoreError):
    """There is no room left: the disk, the quota or the largest size of a file is reached."""


class StorePermissionError(StoreError):
    """The store refuses this user, or is read-only."""


class StoreUnreachableError(StoreError):
    """The store did not answer, answered too late or is overloaded. Whether a write took place is unknown."""

    transient = True


class ObjectMissingError(StoreError):
    """There is no object of this name."""


class ObjectNameError(StoreError):
    """A name is none that every store can have."""

    exit_code = 2


class StoreAddressError(StoreError):
    """A URI or its options lead to no store."""

    exit_code = 2


class StoreUnsupportedError(StoreError):
    """The store cannot create an object atomically, so that two writers could both believe to be first."""

    exit_code = 6


class StoreExtraMissingError(StoreError):
    """The library for this kind of store is not installed."""

    exit_code = 6
