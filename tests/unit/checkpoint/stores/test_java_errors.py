"""What Hadoop throws is named; tests/cluster has it thrown by a real HDFS."""

from __future__ import annotations

import pytest

from tailrace.checkpoint.stores import (
    ObjectMissingError,
    StoreAddressError,
    StoreError,
    StoreFullError,
    StorePermissionError,
    StoreUnreachableError,
    StoreUnsupportedError,
)
from tailrace.checkpoint.stores.java_errors import of


@pytest.mark.parametrize(
    ("classes", "message", "kind"),
    [
        ("FileNotFoundException", "/x", ObjectMissingError),
        ("FileNotFoundException", "/x (Permission denied)", StorePermissionError),
        ("AccessControlException RemoteException", "Permission denied: user=a", StorePermissionError),
        ("DSQuotaExceededException", "quota", StoreFullError),
        ("IOException", "No space left on device", StoreFullError),
        ("RemoteException", "File /x could only be written to 0 of the 1 minReplication nodes.", StoreFullError),
        ("ConnectException", "Connection refused", StoreUnreachableError),
        ("IOException SocketTimeoutException", "Call failed", StoreUnreachableError),
        ("SafeModeException", "Cannot create file", StoreUnreachableError),
        ("UnsupportedFileSystemException", 'No FileSystem for scheme "x"', StoreUnsupportedError),
        ("ParentNotDirectoryException", "/x is not a directory", StoreAddressError),
        ("IOException", "something else", StoreError),
    ],
)
def test_kinds(classes, message, kind):
    error = of(frozenset(classes.split()), message, "Could not write")
    assert type(error) is kind
    assert message in error.message
    assert error.transient is (kind is StoreUnreachableError)
