"""Savepoints that were asked for: each waits for an epoch, is copied when that is durable, and is told of.

    asked    until an epoch is begun for it; for a drained one, with the input held
    epoch    until that epoch is durable; it fails with it, and waits for another one when a worker is lost
    copying  until the publisher's thread has copied it

Owned by ``checkpoints``, which asks it when an epoch is due. Pure.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from tailrace.checkpoint.errors import SavepointFailedError

if TYPE_CHECKING:
    from tailrace.checkpoint.manifest import Manifest
    from tailrace.checkpoint.savepoint import WrittenSavepoint
    from tailrace.checkpoint.stores.store import ObjectStore


class SavepointRequest:
    """One savepoint."""

    def __init__(self, target: ObjectStore, *, drained: bool) -> None:
        self.target = target
        #: Whether everything is to come to rest first, and the query ends with it.
        self.drained = drained
        #: The epoch that is to be copied, from when it is begun, and what it consists of, from when it is durable.
        self.epoch: int | None = None
        self.manifest: Manifest | None = None
        self.written: WrittenSavepoint | None = None
        self.error: Exception | None = None

    @property
    def over(self) -> bool:
        """Whether it was made, or is not waited for any more."""
        return self.written is not None or self.error is not None


class SavepointRequests:
    """All savepoints of one query that are not made yet."""

    def __init__(self) -> None:
        self._waiting: list[SavepointRequest] = []
        self._to_copy: deque[SavepointRequest] = deque()
        self._copying: SavepointRequest | None = None
        #: Whether a drained one was made, with which the query ends.
        self.stopped = False

    def ask(self, request: SavepointRequest) -> None:
        """Let a savepoint be made."""
        self._waiting.append(request)

    def give_up(self, request: SavepointRequest, error: Exception) -> None:
        """Wait no longer for one; a copy that has begun is left to itself."""
        if not request.over:
            request.error = error
        self._waiting = [each for each in self._waiting if each is not request]

    @property
    def due(self) -> bool:
        """Whether an epoch is to be begun at once."""
        return any(each.epoch is None for each in self._waiting)

    @property
    def drains(self) -> bool:
        """Whether the input is to be held for the next epoch, and to stay so until it is copied."""
        return any(each.drained and not each.over for each in (*self._waiting, *self._under_copy))

    @property
    def busy(self) -> bool:
        """Whether the query may not end by itself yet."""
        return bool(self._waiting) or any(not each.over for each in self._under_copy)

    @property
    def ending(self) -> bool:
        """Whether a copy is under way with which the query ends: nothing is begun anew until it is known."""
        return any(each.drained and not each.over for each in self._under_copy)

    @property
    def _under_copy(self) -> list[SavepointRequest]:
        return [*self._to_copy, *([self._copying] if self._copying is not None else [])]

    def begun(self, epoch: int) -> None:
        """An epoch begins: it is what all that wait for one get."""
        for request in self._waiting:
            if request.epoch is None:
                request.epoch = epoch

    def lost(self) -> None:
        """The epoch under way is given up because a worker was lost: another one will do."""
        for request in self._waiting:
            request.epoch = None

    def failed(self, reason: str, hint: str) -> None:
        """The epoch under way could not be made."""
        for request in [each for each in self._waiting if each.epoch is not None]:
            self.give_up(request, SavepointFailedError(f"The savepoint could not be made: {reason}", hint))

    def durable(self, manifest: Manifest) -> None:
        """An epoch is durable: copy it for those that wait for it."""
        for request in [each for each in self._waiting if each.epoch == manifest.epoch]:
            request.manifest = manifest
            self._waiting.remove(request)
            self._to_copy.append(request)

    def next_to_copy(self) -> SavepointRequest | None:
        """The savepoint that is to be copied now; None if there is none."""
        self._copying = self._to_copy.popleft() if self._to_copy else None
        return self._copying

    def copied(self, request: SavepointRequest, written: WrittenSavepoint | None, error: Exception | None) -> None:
        """A savepoint was copied, or could not be."""
        self._copying = None
        if request.over:
            return
        request.written, request.error = written, error
        self.stopped = self.stopped or (request.drained and error is None)
