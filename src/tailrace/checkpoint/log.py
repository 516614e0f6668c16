"""The log of manifests in a store: numbered entries, each made by put-if-absent, so that there is one history.

The coordinator's writer appends; a successor reads the newest entry that is whole and takes the query over by the next
one. Blocking: called from threads that may wait for a store.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from tailrace.checkpoint.errors import CheckpointCorruptError, CheckpointTakenOverError
from tailrace.checkpoint.manifest import Manifest, read_manifest, write_manifest
from tailrace.checkpoint.stores.store import claim

if TYPE_CHECKING:
    from tailrace.checkpoint.stores.store import ObjectStore

_MANIFESTS, _PARTS = "manifests", "parts"
_NAME = re.compile(r"manifests/(\d{10})")
#: How often a successor tries to take over from a predecessor that still publishes.
_TAKEOVERS_MAX = 100


def manifest_name(number: int) -> str:
    """The name of an entry."""
    return f"{_MANIFESTS}/{number:010d}"


class Newest(NamedTuple):
    """The newest entry that can be used, the number of the newest of all, and what is wrong with those between."""

    manifest: Manifest | None
    number: int
    broken: tuple[CheckpointCorruptError, ...]


class ManifestLog:
    """The manifests of one checkpoint folder."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @property
    def store(self) -> ObjectStore:
        """Where it lies."""
        return self._store

    def numbers(self) -> list[int]:
        """The numbers of all entries, oldest first."""
        found = [_NAME.fullmatch(each.name) for each in self._store.list(_MANIFESTS)]
        return sorted(int(match[1]) for match in found if match is not None)

    def read(self, number: int) -> Manifest:
        """One entry; raises if it is not there or not whole."""
        name = manifest_name(number)
        return read_manifest(self._store.get(name), name)

    def newest(self) -> Newest:
        """The newest entry whose bytes are whole; one that is not is passed over and told."""
        numbers = self.numbers()
        broken: list[CheckpointCorruptError] = []
        for number in reversed(numbers):
            try:
                return Newest(self.read(number), numbers[-1], tuple(broken))
            except CheckpointCorruptError as error:  # noqa: PERF203 - mostly the first one is whole
                broken.append(error)
        return Newest(None, numbers[-1] if numbers else 0, tuple(broken))

    def append(self, manifest: Manifest) -> None:
        """Make an entry under its number; raises if another start of the query has made it."""
        if claim(self._store, manifest_name(manifest.number), write_manifest(manifest)):
            return
        raise CheckpointTakenOverError(
            f"Entry {manifest.number} of the checkpoint's log was written by another start of {manifest.query!r}; this "
            "one has been taken over, and what it did since is not part of the checkpoint.",
            "Let only one driver run the query on a checkpoint; the later one goes on.",
        )

    def take_over(self, found: Newest) -> Manifest | None:
        """Begin another attempt behind the newest entry: what was published meanwhile counts. None on an empty log."""
        for _ in range(_TAKEOVERS_MAX):
            if found.manifest is None:
                return None
            taken = msgspec.structs.replace(
                found.manifest, number=found.number + 1, kind="takeover", attempt=found.manifest.attempt + 1
            )
            if claim(self._store, manifest_name(taken.number), write_manifest(taken)):
                return taken
            found = self.newest()
        raise CheckpointTakenOverError(
            f"The checkpoint's log grew {_TAKEOVERS_MAX} times while this start tried to take it over.",
            "Another driver runs the query; stop that one first.",
        )

    def retire(self, keep: int) -> list[str]:
        """Delete all but the newest entries, and objects that no entry left needs; gives the names that are gone.

        Entries first: an entry without its objects would pass for a checkpoint. Objects that are newer than the newest
        entry belong to an epoch under way and stay.
        """
        numbers = self.numbers()
        old, kept = numbers[:-keep], numbers[-keep:]
        entries = [self.read(number) for number in kept]
        gone = [manifest_name(number) for number in old]
        needed = set().union(*(entry.objects for entry in entries))
        epoch = max((entry.epoch for entry in entries), default=0)
        parts = [each.name for each in self._store.list(_PARTS)]
        gone += [name for name in parts if name not in needed and epoch_of(name) <= epoch]
        for name in gone:
            self._store.delete(name)
        return gone


def part_name(epoch: int, attempt: int, execution: int, writer: str) -> str:
    """The name of an object of an epoch; attempt and execution keep those of zombies apart."""
    return f"{_PARTS}/{epoch:010d}-{attempt}-{execution}-{writer}"


def epoch_of(name: str) -> int:
    """The epoch in which an object was written."""
    return int(name.removeprefix(f"{_PARTS}/").partition("-")[0])
