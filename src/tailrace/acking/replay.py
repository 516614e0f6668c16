"""Which open roots a source task sends again for being late: ``fixed`` after a set time, ``adaptive`` as they lag.

``blind`` sends a share of them twice at once and is there for comparison.

One of these per source task, asked by its worker's brain when ``next_look_ns`` says; the ledger says what is overdue.
Pure: the clock's reading is passed in. What is sent again after a worker was lost does not go through here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tailrace.batch import OFFSET_BITS, mix

from .adaptive_timeout import AdaptiveTimeout, ReplayBudget, TimeoutSettings

if TYPE_CHECKING:
    from .ledger import Ledger

#: Roots sent again at once.
REPLAYS_PER_CHECK = 256
_CHECK_MIN_NS = 1_000_000
#: Between two looks of ``adaptive``, at least and at most; a stall is noticed so much later.
_LOOK_MIN_NS, _LOOK_MAX_NS = 2_000_000, 50_000_000
_NS_PER_S = 1_000_000_000
_BLIND_PARTS = 1000
_BLIND_SALT = 0x9FB21C651E98DF25


class Replays(Protocol):
    """Decides what of one ledger is late; ``pressing`` tells that a look cannot wait for the loop's housekeeping."""

    pressing: bool

    @property
    def timeout_ns(self) -> int:
        """How long after its last sending a root is late."""
        ...

    def next_look_ns(self, ledger: Ledger, now_ns: int) -> int:
        """When to ask again."""
        ...

    def emitted(self, roots: int) -> None:
        """Note fresh roots."""
        ...

    def learn(self, ledger: Ledger, now_ns: int) -> None:
        """Take in what the ledger has measured; ask it every time, also when nothing may be sent."""
        ...

    def due(self, ledger: Ledger, now_ns: int) -> list[int]:
        """The roots to be sent again now, oldest first."""
        ...


class FixedReplays:
    """After a set time (the baseline), twice as long after each replay of the same root, up to ten minutes.

    Long, or a step of service times replays everything; then useless for a tail.
    """

    pressing = False

    def __init__(self, timeout_ns: int) -> None:
        self.timeout_ns = timeout_ns

    def next_look_ns(self, ledger: Ledger, now_ns: int) -> int:
        """A twentieth of the timeout later."""
        del ledger
        return now_ns + max(self.timeout_ns // 20, _CHECK_MIN_NS)

    def emitted(self, roots: int) -> None:
        """Nothing hangs on how many there are."""

    def learn(self, ledger: Ledger, now_ns: int) -> None:
        """There is nothing to learn."""

    def due(self, ledger: Ledger, now_ns: int) -> list[int]:
        """Whatever is lost."""
        return ledger.lost(now_ns, self.timeout_ns, REPLAYS_PER_CHECK)


class BlindReplays:
    """A share of all roots twice, late or not: what a timeout has to beat (Du & Gupta, section 5.1.1).

    Which ones goes by a hash of the root, so that a run can be repeated. Loses to ``adaptive`` wherever load costs
    anything: most of what it sends again was in time.
    """

    pressing = True

    def __init__(self, share: float, timeout_ns: int) -> None:
        self.timeout_ns = timeout_ns
        self._below = int(share * _BLIND_PARTS)
        #: Per partition the newest root that was decided on.
        self._decided: dict[int, int] = {}

    def next_look_ns(self, ledger: Ledger, now_ns: int) -> int:
        """As often as one looks."""
        del ledger
        return now_ns + _LOOK_MIN_NS

    def emitted(self, roots: int) -> None:
        """There is no budget."""

    def learn(self, ledger: Ledger, now_ns: int) -> None:
        """There is nothing to learn."""

    def due(self, ledger: Ledger, now_ns: int) -> list[int]:
        """Some of the roots that are new since the last look, and what is lost."""
        fresh = [root for root in ledger.fresh(len(ledger)) if self._is_new(root)]
        for root in fresh:
            self._decided[root >> OFFSET_BITS] = root
        chosen = [root for root in fresh if mix(root, _BLIND_SALT) % _BLIND_PARTS < self._below]
        return chosen + ledger.lost(now_ns, self.timeout_ns, REPLAYS_PER_CHECK)

    def _is_new(self, root: int) -> bool:
        return root > self._decided.get(root >> OFFSET_BITS, -1)


class AdaptiveReplays:
    """By the adaptive timeout, within the budget.

    A root that has not been heard of for the first timeout (30 s) is not late but lost, as with a broken connection:
    it is sent again whatever the budget says, or it might stay open for ever once nothing new is emitted. While not
    ``pressing`` that is all that is sent again, but it goes on learning: it may be switched on at any time. The timeout
    of a root doubles with each replay, and after ``replays_max`` of them the root is no longer late, only lost: one
    whose function does not come back would otherwise be given to that function again and again.
    """

    def __init__(self, ledger: Ledger, settings: TimeoutSettings | None = None, *, pressing: bool = True) -> None:
        self.pressing = pressing
        self.settings = settings or TimeoutSettings()
        self.timeout = AdaptiveTimeout(self.settings)
        self.budget = ReplayBudget(self.settings)
        self._next_ns: int | None = None
        ledger.spent = []

    @property
    def timeout_ns(self) -> int:
        """The timeout of this period."""
        return self.timeout.timeout_ns

    def next_look_ns(self, ledger: Ledger, now_ns: int) -> int:
        """When the oldest open root will be late, so that a source whose roots are in time is not woken for nothing.

        Where that one is late already it waits for budget, or to be late once more: a tenth of the timeout later.
        """
        if not self.pressing:
            return now_ns + _LOOK_MAX_NS
        oldest_ns = ledger.oldest_ns()
        late_ns = (now_ns if oldest_ns is None else oldest_ns) + self.timeout_ns
        if late_ns <= now_ns:
            late_ns = now_ns + self.timeout_ns // 10
        return min(max(late_ns, now_ns + _LOOK_MIN_NS), now_ns + _LOOK_MAX_NS)

    def emitted(self, roots: int) -> None:
        """Earn what may be replayed, while something may: what is saved up before would all go at once later on."""
        if self.pressing and self.timeout_ns < self.settings.first_ns:
            self.budget.earn(roots)

    def due(self, ledger: Ledger, now_ns: int) -> list[int]:
        """The oldest of what is overdue, as far as the budget goes, and what is lost."""
        replays_max = self.settings.replays_max
        late: list[int] = []
        if self.pressing:
            late = ledger.overdue(now_ns, self.timeout_ns, REPLAYS_PER_CHECK, replays_max=replays_max)
            late = late[: self.budget.take(len(late))]
        known = set(late)
        lost = ledger.lost(now_ns, self.settings.first_ns, REPLAYS_PER_CHECK, grace=replays_max)
        return late + [root for root in lost if root not in known]

    def learn(self, ledger: Ledger, now_ns: int) -> None:
        """Count what roots took; adjust the timeout when a period is over."""
        if ledger.spent:
            self.timeout.note(ledger.spent)
            ledger.spent = []
        if self._next_ns is None or now_ns >= self._next_ns:
            if self._next_ns is not None:
                self.timeout.adjust(ledger.ages(now_ns))
            self._next_ns = now_ns + int(self.settings.period_s * _NS_PER_S)
