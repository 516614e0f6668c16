"""The control items of a worker's channels: one way out, one dispatch in, the same for receivers here and elsewhere.

``delivery`` and those who carry out operations say items through it, and register what they do when one comes. Holds to
the table of ``tailrace.items``: what was sent on a channel before an item was handed to its receiver's worker, or put
into an inbox of this one, before the item is. Touches the outgoing buffer only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from tailrace.errors import TailraceError
from tailrace.items import RULES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.items import Control
    from tailrace.sending.outbox import Outbox
    from tailrace.worker.exchange.outgoing import OutgoingBuffer

C = TypeVar("C", bound="Control")


class ChannelOrderError(TailraceError):
    """A control item was about to overtake data that it has to wait for: an error in Tailrace itself."""


class ControlItems:
    """Control items from and to the tasks of one worker."""

    def __init__(self, slot: int, outgoing: OutgoingBuffer) -> None:
        self._slot = slot
        self._outgoing = outgoing
        self._handlers: dict[type[Control], Callable[[int, Any, int], None]] = {}

    def handle(self, kind: type[C], handler: Callable[[int, C, int], None]) -> None:
        """Give items of a kind to a handler: the channel's number, the item, and the slot that said it."""
        self._handlers[kind] = handler

    def say(self, box: Outbox, item: Control) -> None:
        """Send an item with the data of a channel: behind what was sent, and past what waits only if it may."""
        if box.values and not RULES[type(item)].overtakes_outbox:
            raise ChannelOrderError(
                f"{type(item).__name__} is sent when the outbox is empty; found {len(box.values)} tuples in it."
            )
        self.send(box.slot, box.channel, item)

    def send(self, slot: int, channel: int, item: Control) -> None:
        """Send an item to the worker at the other end of a channel; what this one says to itself arrives at once."""
        if slot == self._slot:
            self.arrive(channel, item, slot)
        else:
            self._outgoing.control(slot, channel, item)

    def arrive(self, channel: int, item: Control, slot: int) -> None:
        """Take in an item that the worker of a slot has said."""
        self._handlers[type(item)](channel, item, slot)
