"""Names what Hadoop throws. ``hadoop.py`` wraps each of its steps in it; Py4J brings the Java exceptions here."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import (
    ObjectMissingError,
    StoreAddressError,
    StoreError,
    StoreFullError,
    StorePermissionError,
    StoreUnreachableError,
    StoreUnsupportedError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Kind(NamedTuple):
    error: type[StoreError]
    hint: str
    #: Last parts of the names of Java's classes.
    classes: frozenset[str]
    #: Said in messages of classes that say nothing by themselves.
    phrases: tuple[str, ...] = ()


MISSING = frozenset({"FileNotFoundException", "NoSuchFileException"})
#: S3A says RemoteFileChanged where the condition of a creation does not hold.
ALREADY_THERE = frozenset({"FileAlreadyExistsException", "PathExistsException", "RemoteFileChangedException"})
_KINDS = (
    _Kind(
        StorePermissionError,
        "Let this user write there, log in (kinit), or choose another address.",
        frozenset({"AccessControlException", "AccessDeniedException", "AuthorizationException", "SaslException"}),
        ("Permission denied", "GSS initiate failed"),
    ),
    _Kind(
        StoreFullError,
        "Free some room or raise the quota, keep fewer checkpoints, or choose another address.",
        frozenset({"DSQuotaExceededException", "NSQuotaExceededException", "QuotaByStorageTypeExceededException"}),
        ("No space left on device", "could only be written to 0 of", "could only be replicated to 0 nodes"),
    ),
    _Kind(
        StoreUnsupportedError,
        "See whether the jars of this file system are with the session, or choose another address.",
        frozenset({"UnsupportedFileSystemException", "UnsupportedOperationException", "ClassNotFoundException"}),
        ("No FileSystem for scheme", "No AbstractFileSystem configured"),
    ),
    _Kind(
        StoreUnreachableError,
        "See whether the name node, or whatever answers at this address, runs and can be reached from the driver.",
        frozenset({
            "ConnectException", "ConnectTimeoutException", "SocketTimeoutException", "NoRouteToHostException",
            "UnknownHostException", "StandbyException", "SafeModeException", "RetriableException", "SocketException",
            "EOFException", "InterruptedIOException", "ClosedChannelException", "ConnectionPoolTimeoutException",
            "AWSServiceIOException", "AWSServiceThrottledException", "AWSStatus500Exception", "BlockMissingException",
        }),
        ("Filesystem closed", "All datanodes", "Unable to close file because"),
    ),
    _Kind(
        StoreAddressError,
        "Name a folder, not a file, in a form such as hdfs://host:port/folder.",
        frozenset({
            "ParentNotDirectoryException", "PathIsNotDirectoryException", "NotDirectoryException",
            "IllegalArgumentException", "InvalidPathException", "UnknownStoreException",
        }),
        ("is not a directory",),
    ),
)  # fmt: skip


@contextlib.contextmanager
def named(doing: str, address: str, name: str = "") -> Iterator[None]:
    """Let Java's exceptions come out as ``StoreError``."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - only where there is a session

    what = f"{name!r} at {address}" if name else address
    try:
        yield
    except java_errors() as error:
        message = str(_thrown(error).getMessage()).partition("\n")[0]
        raise of(classes_of(error), message, f"Could not {doing} {what}; found") from error
    except (Py4JError, ConnectionError) as error:
        raise StoreError(
            f"Could not {doing} {what}; found: the JVM of the session does not answer.", "Start a new session."
        ) from error


def java_errors() -> tuple[type[Exception], ...]:
    """Give the classes as which Java's exceptions come here: PySpark makes some of them into its own."""
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415
    from pyspark.errors.exceptions.captured import CapturedException  # noqa: PLC0415

    return Py4JJavaError, CapturedException


def _thrown(error: Any) -> Any:
    return error.java_exception if hasattr(error, "java_exception") else error._origin  # noqa: SLF001


def classes_of(error: Exception) -> frozenset[str]:
    """Name the classes of a Java exception and of its causes, without their packages."""
    names, exception = [], _thrown(error)
    while exception is not None:
        names.append(exception.getClass().getName().rpartition(".")[2])
        if names[-1] == "RemoteException":  # as the name node threw it
            names.append(exception.getClassName().rpartition(".")[2])
        exception = exception.getCause()
    return frozenset(names)


def of(classes: frozenset[str], message: str, found: str) -> StoreError:
    """Name an exception, given its classes and message."""
    text = f"{found}: {message} ({', '.join(sorted(classes))})"
    for kind in _KINDS:
        if classes & kind.classes or any(phrase in message for phrase in kind.phrases):
            return kind.error(text, kind.hint)
    return ObjectMissingError(text) if classes & MISSING else StoreError(text)
