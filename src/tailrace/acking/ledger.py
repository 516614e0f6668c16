"""The XOR ledger of one source task: which roots are open, which are done, which must be sent again.

What comes of a root shares its lineage out (see ``batch``), and each share is XORed into the root's entry when it is
done, so the entry is zero exactly when everything that came of the root is done (but for one case in 2^64). Of a root
that was sent again for being late every incarnation counts, and the first that is complete closes it. Pure: the clock's
reading is passed in. Called by the worker that hosts the source task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.batch import HEAD_PLACES, OFFSET_BITS, OFFSET_MAX, REPLAY_BITS, REPLAY_MAX, root_lineage
from tailrace.hot import OpenRoots

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

#: Older incarnations of a root that may still close it; the oldest is given up for one more.
OLDER_MAX = 8
#: Between two replays of one root at most; what was really lost is sent again so soon after the way is free.
LONGEST_WAIT_NS = 600_000_000_000


class Ledger:
    """Open roots of one source task, oldest first."""

    def __init__(self, attempt: int) -> None:
        self.base_inc = attempt << REPLAY_BITS
        self.replays = 0
        self.completed = 0
        self._open = OpenRoots()
        #: When a root was last complete; None before the first.
        self._completed_ns: int | None = None
        #: Per partition: the offset after the newest root that was emitted.
        self._next: dict[int, int] = {}
        #: What is left of the older incarnations of roots that were sent again for being late.
        self._older: dict[int, dict[int, int]] = {}
        #: Where a timeout learns from it: how long ago the roots completed since were first sent.
        self.spent: list[int] | None = None

    def __len__(self) -> int:
        return len(self._open)

    @property
    def bytes(self) -> int:
        """What the open roots gave, which is kept to be sent again."""
        return self._open.bytes

    def emit(
        self,
        heads: array[int],
        done: array[int] | None,
        dues_ns: Sequence[int] | None,
        now_ns: int,
        given: Any,
        given_bytes: int = 0,
    ) -> list[int]:
        """Enter fresh roots of one partition; ``given`` can repeat what was sent for them, and takes so many bytes.

        ``done`` is the share of each for which nothing was sent. A root that has no other is complete already: gives
        the latencies of those.
        """
        latencies = self._open.enter(heads, done, dues_ns, now_ns, given, given_bytes)
        newest = heads[-HEAD_PLACES]
        self._next[newest >> OFFSET_BITS] = (newest & OFFSET_MAX) + 1
        self.completed += len(latencies)
        return latencies

    def pass_by(self, partition: int, last_offset: int, count: int) -> None:
        """Note roots that need no tracking: they count as complete."""
        self._next[partition] = last_offset + 1
        self.completed += count

    def skip_to(self, partition: int, offset: int) -> None:
        """Say where a partition starts, before its first root."""
        self._next.setdefault(partition, offset)

    def acks(self, heads: array[int], now_ns: int) -> list[int]:
        """Take acks in; give the complete latencies, counted from when each root was due."""
        latencies, strays = self._open.settle(heads, now_ns, self.spent)
        if strays is not None and self._older:
            latencies += self._older_acks(strays, now_ns)
        if latencies:
            self._completed_ns = now_ns
        self.completed += len(latencies)
        return latencies

    def _older_acks(self, heads: array[int], now_ns: int) -> list[int]:
        """XOR acks into older incarnations; gives the latencies of roots that one of those completes."""
        latencies = []
        for at in range(0, len(heads), HEAD_PLACES):
            root, inc, lineage = heads[at : at + HEAD_PLACES]
            older = self._older.get(root)
            if older is None or inc not in older:
                continue
            if root not in self._open:  # another ack of the same message has closed it
                del self._older[root]
                continue
            older[inc] ^= lineage
            if not older[inc]:
                _, _, due_ns, sent_ns, _, _ = self._open.look(root)
                latencies.append(now_ns - due_ns)
                if self.spent is not None:
                    self.spent.append(now_ns - sent_ns)
                self._open.close(root)
                del self._older[root]
        return latencies

    def overdue(self, now_ns: int, timeout_ns: int, limit: int, *, replays_max: int = REPLAY_MAX) -> list[int]:
        """Roots last sent longer ago than the timeout, oldest first; at most ``limit``.

        With each replay of a root its timeout doubles, up to ``LONGEST_WAIT_NS``, and one that was replayed
        ``replays_max`` times is passed over: each replay of a stuck record runs the user's functions again.
        """
        self._forget_older()
        return self._open.overdue(now_ns, now_ns, timeout_ns, LONGEST_WAIT_NS, limit, replays_max, 0)

    def lost(self, now_ns: int, timeout_ns: int, limit: int, *, grace: int = 0) -> list[int]:
        """Overdue roots that do not merely wait: one that was sent later is complete, or none is since the timeout.

        Behind a long queue all roots are overdue, and sending them again would only make it longer. Timeouts double
        with each replay beyond the ``grace``.
        """
        self._forget_older()
        standing = self._completed_ns is None or now_ns - self._completed_ns > timeout_ns
        before_ns = now_ns if standing else self._open.done_sent_ns
        return self._open.overdue(now_ns, before_ns, timeout_ns, LONGEST_WAIT_NS, limit, REPLAY_MAX, grace)

    def _forget_older(self) -> None:
        if self._older:
            self._older = {root: older for root, older in self._older.items() if root in self._open}

    def fresh(self, limit: int) -> list[int]:
        """The oldest open roots, however lately they were sent; at most ``limit``."""
        return self._open.sent_before(1 << 62, limit)

    def everything(self) -> list[int]:
        """Every open root: what is sent again after a worker was lost."""
        return self.fresh(len(self._open))

    def ages(self, now_ns: int) -> list[int]:
        """How long ago each open root was first sent."""
        return self._open.ages(now_ns)

    def oldest_ns(self) -> int | None:
        """When the oldest open root was first sent; None when none is open."""
        found = self.fresh(1)
        return self._open.look(found[0])[3] if found else None

    def reincarnate(self, root: int, now_ns: int, *, lost: bool = False) -> tuple[int, Any, int]:
        """Begin the next incarnation of an open root: its number, and what to send again.

        Older ones go on beside it, unless something was ``lost`` with a worker: then what they had acknowledged may be
        lost too, and only the new one counts.
        """
        left, inc, _, _, given, index = self._open.look(root)
        if lost:
            self._older.pop(root, None)
        else:
            older = self._older.setdefault(root, {})
            older[inc] = left
            if len(older) > OLDER_MAX:
                del older[next(iter(older))]
        inc = self.base_inc | ((inc + 1) & REPLAY_MAX)
        self._open.restart(root, inc, root_lineage(root), now_ns)
        self.replays += 1
        return inc, given, index

    def next_offsets(self) -> dict[int, int]:
        """Per partition the offset below which every root has been emitted."""
        return dict(self._next)

    def low_water(self) -> dict[int, int]:
        """Per partition the offset below which every root is complete."""
        return self._next | self._open.lows()
