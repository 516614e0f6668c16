"""What a channel carries: batches of data, and control items; and who may overtake whom, in one table.

An item goes from an outbox over a transport, or by a call where both tasks are in one worker, to an inbox. Senders,
receivers, the transport's ``wire`` and the simulator share these types; ``worker.exchange.delivery`` holds to the
table. Plain data; what each item leads to is said where it is handled.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Control:
    """A control item of a channel; anything else on it is a batch of data."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class End(Control):
    """Nothing more comes on this channel."""


@dataclass(frozen=True, slots=True)
class Paused(Control):
    """No data comes on this channel until its receiving task, or key groups of it, have moved: the plan's epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Moved(Control):
    """What comes next on this channel comes from another slot: the channel's new epoch and that slot."""

    channel_epoch: int
    slot: int


@dataclass(frozen=True, slots=True)
class Seen(Control):
    """All that came on this channel before ``Moved`` or ``Behind`` is here: the epoch that was said with it."""

    number: int


@dataclass(frozen=True, slots=True)
class Behind(Control):
    """What comes next on this channel comes after key groups of its sending task have moved: the plan's epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Credit(Control):
    """How many tuples of the channel were consumed in all, in this epoch of the channel."""

    consumed: int
    channel_epoch: int


@dataclass(frozen=True, slots=True)
class Resync(Control):
    """How many tuples of the channel were sent in all: what of them is not here was lost with a connection."""

    sent: int


@dataclass(frozen=True, slots=True)
class Prompt(Control):
    """Whether the receiver is to credit whatever it takes at once, because the sender waits for bytes."""

    on: bool


class Direction(Enum):
    """Which way an item goes."""

    WITH_DATA = "with the data"
    AGAINST_DATA = "against the data"


@dataclass(frozen=True, slots=True)
class Rule:
    """What holds for one kind of control item."""

    direction: Direction
    #: Whether it is sent while data waits in the outbox; if not, it waits until the outbox is empty.
    overtakes_outbox: bool
    #: Whether it takes effect while data that came before it waits in the inbox.
    overtakes_inbox: bool


_WITH, _AGAINST = Direction.WITH_DATA, Direction.AGAINST_DATA

#: The table. Two rules hold for every item and therefore have no column: what was *sent* before it, that is, taken out
#: of its outbox, arrives before it; and what is sent after it, data or control, never overtakes it.
RULES: dict[type[Control], Rule] = {
    # The last of the data: the outbox is empty first, and the task has not come to its end while data waits.
    End: Rule(_WITH, overtakes_outbox=False, overtakes_inbox=False),
    # What waits in the outbox stays there: it is for the task's new place. What waits in the inbox goes with the task.
    Paused: Rule(_WITH, overtakes_outbox=True, overtakes_inbox=True),
    # What waits in the outbox goes with the task and is sent from its new place, behind this. What waits in the inbox
    # keeps its place there and is counted as the old place's.
    Moved: Rule(_WITH, overtakes_outbox=True, overtakes_inbox=True),
    # It answers for all that the task has given before its key groups move, so the outbox is empty first.
    Behind: Rule(_WITH, overtakes_outbox=False, overtakes_inbox=True),
    # It counts what was sent and says nothing of what waits.
    Resync: Rule(_WITH, overtakes_outbox=True, overtakes_inbox=True),
    # The sender waits for the credits that this asks for, with data in its outbox.
    Prompt: Rule(_WITH, overtakes_outbox=True, overtakes_inbox=True),
    # Answers meet no data on their way.
    Seen: Rule(_AGAINST, overtakes_outbox=True, overtakes_inbox=True),
    Credit: Rule(_AGAINST, overtakes_outbox=True, overtakes_inbox=True),
}
