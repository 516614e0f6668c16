"""Shared: the tasks of one shuffle-fed operator on a node pull from one queue (Du & Gupta, section 3.2).

c queues of M/M/1 become one M/M/c: with a = lambda/mu and rho = a/c the share of tuples that wait falls to Erlang's
C(c, a) = (a^c/c! / (1-rho)) / (sum_{k<c} a^k/k! + a^c/c! / (1-rho)) and the mean wait is C/(c mu - lambda). (The paper
prints c rho in place of (c rho)^c and calls C a time.) Towards control items that wait behind data the tasks
are one: such an item is handed out once, after all that came before it is finished, and nothing behind it before that.

When it loses: with one task per node it is the same queue with a lock; at low use there is no queue to share; a slow
consumer still holds what it claimed, so claims are small; and order within the operator is gone, so keyed operators
and streams with ``ordered=True`` may not use it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tailrace.errors import TailraceError

if TYPE_CHECKING:
    from tailrace.items import Control
    from tailrace.topology.plan import Stage, StageEdge

T = TypeVar("T")

#: Groupings under which any task of the operator may take any tuple.
SHAREABLE_GROUPINGS = frozenset({"auto", "shuffle", "local"})


class SharedQueueError(TailraceError):
    """A shared queue was asked for in front of an operator whose tuples belong to certain tasks."""

    exit_code = 2


@dataclass(frozen=True, eq=False)
class InBand:
    """A control item of a channel that waits behind data."""

    channel: Any
    item: Control


class Shared(Generic[T]):
    """One queue for all consumers; claims are kept per consumer until they are done or released."""

    def __init__(self) -> None:
        self._queue: deque[T | InBand] = deque()
        self._claims: dict[int, list[T]] = {}
        self._claimed = 0

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, item: T | InBand) -> None:
        """Queue behind everything."""
        self._queue.append(item)

    @property
    def oldest(self) -> T | InBand | None:
        """What would be claimed next, as far as it may be; None when there is nothing for anyone now."""
        if not self._queue or (self._claimed and isinstance(self._queue[0], InBand)):
            return None
        return self._queue[0]

    def claim(self, consumer: int) -> T | InBand | None:
        """Give the oldest item; a control item only once nothing before it is being worked on.

        Whoever works on several pieces at once is a consumer for each of them.
        """
        queue = self._queue
        if not queue:
            return None
        item = queue[0]
        if isinstance(item, InBand):
            return None if self._claimed else queue.popleft()
        queue.popleft()
        self._claims.setdefault(consumer, []).append(item)
        self._claimed += 1
        return item

    def cut(self, consumer: int, first: T, rest: T) -> None:
        """Let a consumer keep only the first part of what it claimed last; the rest is the oldest that waits."""
        self._claims[consumer][-1] = first
        self._queue.appendleft(rest)

    def done(self, consumer: int) -> None:
        """Forget the claims of a consumer; the last one may set a control item free."""
        self._claimed -= len(self._claims.pop(consumer, ()))

    def release(self, consumer: int) -> int:
        """Put a dead consumer's claims back in front, in their order, for the others."""
        claims = self._claims.pop(consumer, [])
        self._queue.extendleft(reversed(claims))
        self._claimed -= len(claims)
        return len(claims)

    def drain(self) -> list[T | InBand]:
        """Give up all that waits, in order; claims stay until they are done."""
        waiting = list(self._queue)
        self._queue.clear()
        return waiting

    @property
    def claimed(self) -> int:
        """How many items are being worked on."""
        return self._claimed


def may_share(stage: Stage, inputs: tuple[StageEdge, ...]) -> bool:
    """Whether any task of the stage may take any tuple that comes in."""
    return (
        not stage.is_source
        and not stage.ordered
        and not stage.guarded
        and bool(inputs)
        and all(edge.grouping.kind in SHAREABLE_GROUPINGS for edge in inputs)
    )


def shares(stage: Stage, inputs: tuple[StageEdge, ...], inbox: str, named: tuple[str, ...]) -> bool:
    """Whether the tasks of a stage that are near each other take from one queue, as the policy has it."""
    wanted = stage.head.name in named if named else inbox == "shared"
    return wanted and stage.tasks > 1 and may_share(stage, inputs)


def check_may_share(stage: Stage, inputs: tuple[StageEdge, ...]) -> None:
    """Refuse a shared queue that was asked for by name where tuples belong to certain tasks."""
    if may_share(stage, inputs):
        return
    kinds = ", ".join(sorted({edge.grouping.kind for edge in inputs})) or "no input"
    raise SharedQueueError(
        f"A shared inbox needs a stateless operator that is fed by shuffle; {stage.head.name!r} "
        f"({stage.head.verb}) is fed by {kinds}.",
        "Leave inbox='per_task' for it, or let Policy(inbox='shared') skip it.",
    )
