"""Names what the operating system says of a folder. ``folder.py`` wraps each of its steps in it."""

from __future__ import annotations

import contextlib
import errno
from typing import TYPE_CHECKING, NamedTuple

from .errors import (
    ObjectMissingError,
    StoreAddressError,
    StoreError,
    StoreFullError,
    StorePermissionError,
    StoreUnreachableError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Kind(NamedTuple):
    error: type[StoreError]
    expected: str
    hint: str
    numbers: tuple[int, ...]


_KINDS = (
    _Kind(
        StoreFullError,
        "room",
        "Free some room or raise the quota, keep fewer checkpoints, or choose another address.",
        (errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
    ),
    _Kind(
        StorePermissionError,
        "permission",
        "Let this user write there (mount it writable, chown, chmod), or choose another address.",
        (errno.EACCES, errno.EPERM, errno.EROFS),
    ),
    _Kind(
        StoreAddressError,
        "a folder",
        "Name a folder, not a file.",
        (errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG),
    ),
    _Kind(
        StoreUnreachableError,
        "an answer",
        "The disk or the server of the mount does not answer as it should: see its log.",
        (
            errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETUNREACH,
            errno.ENETDOWN, errno.ECONNREFUSED, errno.ECONNRESET, errno.ENOTCONN, errno.EAGAIN, errno.EBUSY,
            errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOLCK,
        ),
    ),
)  # fmt: skip
_KIND_OF = {number: kind for kind in _KINDS for number in kind.numbers}


@contextlib.contextmanager
def named(doing: str, address: str, name: str = "") -> Iterator[None]:
    """Let errors of the operating system come out as ``StoreError``."""
    try:
        yield
    except OSError as error:
        raise _named(error, doing, f"{name!r} at {address}" if name else address) from error


def _named(error: OSError, doing: str, what: str) -> StoreError:
    found = f"found: {error.strerror or error}"
    if error.errno == errno.ENOENT:
        return ObjectMissingError(
            f"Expected {what} to be there to {doing} it; {found}.", "See whether the path is right."
        )
    kind = _KIND_OF.get(error.errno or 0)
    if kind is None:
        return StoreError(f"Could not {doing} {what}; {found}.")
    return kind.error(f"Expected {kind.expected} to {doing} {what}; {found}.", kind.hint)
