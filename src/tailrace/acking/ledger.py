"""The XOR ledger of one source task: which roots are open, which are done, which must be sent again.

Each bundle a root gives rise to is XORed into the root's entry when it is sent and once more when it is done, so the
entry is zero exactly when everything that came of the root is done (but for one case in 2^64). Pure: the clock's
reading is passed in. Called by the worker that hosts the source task.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from tailrace.batch import OFFSET_BITS, OFFSET_MAX, REPLAY_BITS
from tailrace.hot import OPEN_GIVEN, OPEN_INC, OPEN_INDEX, OPEN_SENT, OPEN_XOR, enter, settle

if TYPE_CHECKING:
    from tailrace.hot import Open


class Ledger:
    """Open roots of one source task, oldest first."""

    def __init__(self, attempt: int) -> None:
        self.base_inc = attempt << REPLAY_BITS
        self.replays = 0
        self.completed = 0
        self._open: dict[int, Open] = {}
        #: Per partition: the offset after the newest root that was emitted.
        self._next: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._open)

    def emit(self, roots: list[int], xors: list[int], dues_ns: list[int], now_ns: int, given: Any) -> list[int]:
        """Enter fresh roots of one partition; ``given`` can repeat what was sent for them.

        A root for which nothing was sent is complete already: gives the latencies of those.
        """
        done = enter(self._open, roots, xors, dues_ns, now_ns, self.base_inc, given)
        self._next[roots[-1] >> OFFSET_BITS] = (roots[-1] & OFFSET_MAX) + 1
        self.completed += len(done)
        return done

    def pass_by(self, partition: int, last_offset: int, count: int) -> None:
        """Note roots that need no tracking: they count as complete."""
        self._next[partition] = last_offset + 1
        self.completed += count

    def skip_to(self, partition: int, offset: int) -> None:
        """Say where a partition starts, before its first root."""
        self._next.setdefault(partition, offset)

    def acks(self, roots: list[int], incs: list[int], xors: list[int], now_ns: int) -> list[int]:
        """Take acks in; give the complete latencies, counted from when each root was due."""
        done = settle(self._open, roots, incs, xors, now_ns)
        self.completed += len(done)
        return done

    def overdue(self, now_ns: int, timeout_ns: int, limit: int) -> list[int]:
        """Roots open for longer than the timeout, oldest first; at most ``limit``."""
        late = (root for root, entry in self._open.items() if now_ns - entry[OPEN_SENT] > timeout_ns)
        return list(islice(late, limit))

    def everything(self) -> list[int]:
        """Every open root: what is sent again after a worker was lost."""
        return list(self._open)

    def reincarnate(self, root: int, now_ns: int) -> tuple[int, Any, int]:
        """Begin the next incarnation of an open root: its number, and what to send again. Older acks are void."""
        entry = self._open[root]
        inc = entry[OPEN_INC] = self.base_inc | ((entry[OPEN_INC] + 1) & ((1 << REPLAY_BITS) - 1))
        entry[OPEN_SENT] = now_ns
        self.replays += 1
        return inc, entry[OPEN_GIVEN], entry[OPEN_INDEX]

    def sent_again(self, root: int, xor: int) -> None:
        """Enter what the new incarnation sent."""
        self._open[root][OPEN_XOR] = xor

    def low_water(self) -> dict[int, int]:
        """Per partition the offset below which every root is complete."""
        marks = dict(self._next)
        for root in self._open:
            partition, offset = root >> OFFSET_BITS, root & OFFSET_MAX
            marks[partition] = min(marks[partition], offset)
        return marks
