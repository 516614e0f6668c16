"""The one interface of all stores: objects that are written once, and pointers that are exchanged by compare-and-swap.

Checkpoints, savepoints and sinks write through it, from the driver or from workers; stores know nothing of what they
hold. ``registry.open_store`` finds the class for a URI. All methods may be called from several threads.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from .errors import ObjectNameError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Names that end so are pointers, all others are objects. Told by the name, nothing is ever both.
POINTER_SUFFIX = ".pointer"
#: A store adds at most some 40 bytes to a segment for files that are being written; file systems take 255.
SEGMENT_BYTES_MAX = 200
NAME_BYTES_MAX = 800
#: What every file system, object store and shell takes unquoted. A leading dot is kept for files being written.
_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._=-]*", re.ASCII)


class ObjectInfo(NamedTuple):
    """One line of a listing."""

    name: str
    size_bytes: int


class Tagged(NamedTuple):
    """What a pointer holds, and the tag that ``put_if`` wants to replace just this."""

    data: bytes
    tag: str


class ObjectStore(ABC):
    """Objects by name below one address.

    Names are relative, with ``/`` between segments. What a method has returned is durable and is seen by every other
    client from then on. A write is seen whole or not at all.

    A request that raises with ``transient`` may have taken place all the same: a repeated ``put_new`` then gives False
    for an object that is the caller's own. Use ``claim`` where that matters.
    """

    #: Whether workers can open the same URI themselves. Where not, they hand their data to the driver, which writes.
    reachable_from_workers: ClassVar[bool]

    def __init__(self, address: str) -> None:
        #: Where it is, for messages: the URI without options, thus without credentials.
        self.address = address

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r})"

    def put_new(self, name: str, data: bytes) -> bool:
        """Create an object; False, and nothing changes, if there is one of this name."""
        return self._put_new(check_object(name), data)

    def put_if(self, name: str, data: bytes, tag: str | None) -> str | None:
        """Replace what a pointer holds if it still has this tag, or create it if the tag is None.

        Give the new tag, or None if the pointer has another tag or none. Some stores make tags from the data, so that
        a pointer that goes from A to B and back to A has its first tag again: data should carry a number that grows.
        """
        return self._put_if(check_pointer(name), data, tag)

    def get(self, name: str) -> bytes:
        """Read an object, or what a pointer holds."""
        return self._get_tagged(name).data if is_pointer(check_name(name)) else self._get(name)

    def get_tagged(self, name: str) -> Tagged:
        """Read what a pointer holds, with its tag."""
        return self._get_tagged(check_pointer(name))

    def delete(self, name: str) -> None:
        """Delete an object or a pointer; that there is none is no error. Nobody may write to a pointer meanwhile."""
        self._delete(check_name(name))

    def list(self, prefix: str = "") -> Sequence[ObjectInfo]:
        """List all objects and pointers below a prefix of whole segments (``a/b`` has ``a/b/c``, not ``a/bc``)."""
        return sorted(self._list(check_name(prefix) if prefix else ""))

    @abstractmethod
    def _put_new(self, name: str, data: bytes) -> bool: ...

    @abstractmethod
    def _put_if(self, name: str, data: bytes, tag: str | None) -> str | None: ...

    @abstractmethod
    def _get(self, name: str) -> bytes: ...

    @abstractmethod
    def _get_tagged(self, name: str) -> Tagged: ...

    @abstractmethod
    def _delete(self, name: str) -> None: ...

    @abstractmethod
    def _list(self, prefix: str) -> Sequence[ObjectInfo]: ...


def claim(store: ObjectStore, name: str, data: bytes) -> bool:
    """Create an object unless another one is there; True whenever the one that is there has this data.

    Safe to repeat after a transient error. Data that says who wrote it, such as an attempt, has one winner.
    """
    return store.put_new(name, data) or store.get(name) == data


def is_pointer(name: str) -> bool:
    """Tell whether a name is that of a pointer."""
    return name.endswith(POINTER_SUFFIX)


def check_object(name: str) -> str:
    """Refuse what is no name, and pointers' names."""
    if is_pointer(check_name(name)):
        raise ObjectNameError(
            f"An object must have a name that does not end with {POINTER_SUFFIX!r}; found {name!r}.",
            "Pointers are written with put_if.",
        )
    return name


def check_pointer(name: str) -> str:
    """Refuse what is no name of a pointer."""
    if not is_pointer(check_name(name)):
        raise ObjectNameError(
            f"A pointer must have a name that ends with {POINTER_SUFFIX!r}; found {name!r}.",
            "Objects are written once, with put_new.",
        )
    return name


def check_name(name: str) -> str:
    """Refuse names that some store could not have, or that lead out of it."""
    segments = name.split("/")
    pointers = [segment for segment in segments[:-1] if is_pointer(segment)]
    fits = all(_SEGMENT.fullmatch(segment) and len(segment) <= SEGMENT_BYTES_MAX for segment in segments)
    if not fits or pointers or len(name) > NAME_BYTES_MAX:
        raise ObjectNameError(
            f"A name must be segments of letters, digits and '_', '.', '=', '-', none of them beginning with a dot, "
            f"'=' or '-', with '/' between them, up to {SEGMENT_BYTES_MAX} characters each and {NAME_BYTES_MAX} in "
            f"all; found {name[: 2 * SEGMENT_BYTES_MAX]!r}.",
            "Give names relative to the store's address, such as 'epochs/12/worker-3'.",
        )
    return name
