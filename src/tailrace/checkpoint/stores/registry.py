"""Finds the store for a URI. Whoever was given an address by a user calls ``open_store``, on the driver or a worker."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from .cloud import OPTIONS, CloudStore
from .errors import StoreAddressError
from .folder import FolderStore
from .hadoop import HadoopStore
from .memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .store import ObjectStore

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
#: What most users of Hadoop have; any other scheme that the session knows will do.
_OF_HADOOP = ("hdfs", "s3a", "abfss", "viewfs")


def open_store(
    uri: str | os.PathLike[str],
    options: Mapping[str, str] | None = None,
    spark: Any = None,
    *,
    writable: bool = True,
) -> ObjectStore:
    """Open the store at a path or URI; options may also stand behind a ``?`` in the URI.

    ``spark`` is a classic session; with one, whatever its Hadoop file systems know can be opened, on the driver only.
    Without ``writable`` nothing is created or tidied up, so that a reader needs no permission to write.
    """
    text = os.fspath(uri)
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else ""
    if not scheme:
        _refuse_options(text, options)
        return FolderStore(Path(text), writable=writable)
    address, _, query = text.partition("?")
    given = dict(parse_qsl(query, keep_blank_values=True)) | dict(options or {})
    if scheme in OPTIONS:
        return CloudStore(address, given)
    _refuse_options(address, given)
    if scheme == "file":
        return FolderStore(_path_of(address), writable=writable)
    if scheme == "memory":
        return MemoryStore.shared(address)
    if spark is None:
        raise _unknown(address, scheme)
    return HadoopStore(address, spark, writable=writable)


def _path_of(address: str) -> Path:
    parts = urlsplit(address)
    if parts.netloc not in {"", "localhost"} or not parts.path.startswith("/"):
        raise StoreAddressError(
            f"A file: URI must have an absolute path and no host; found {address!r}.", "Write for example file:///data."
        )
    return Path(unquote(parts.path))


def _refuse_options(address: str, options: Mapping[str, str] | None) -> None:
    if options:
        raise StoreAddressError(
            f"{address} takes no options; found {', '.join(sorted(options))}.",
            f"Options belong to {', '.join(f'{scheme}://' for scheme in sorted(OPTIONS))}.",
        )


def _unknown(address: str, scheme: str) -> StoreAddressError:
    known = ", ".join(f"{each}://" for each in sorted(OPTIONS))
    of_hadoop = ", ".join(f"{each}://" for each in _OF_HADOOP)
    return StoreAddressError(
        f"Expected an address of a known kind; found {address!r} with the scheme {scheme!r} and no Spark session.",
        f"Known: a path, file:, memory:, {known}; with a classic Spark session also what its Hadoop file systems "
        f"know, such as {of_hadoop}.",
    )
