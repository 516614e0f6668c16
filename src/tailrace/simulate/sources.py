"""A source task: emits roots on time, waits for them, and sends some again as the runtime's timeout and budget allow.

Latency counts from when a root was due to the end of its fastest incarnation. ``engine`` sends what is emitted and
tells of roots that are done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.acking.adaptive_timeout import AdaptiveTimeout, ReplayBudget
from tailrace.acking.ledger import LONGEST_WAIT_NS
from tailrace.batch import REPLAY_BITS, root_id, root_lineage
from tailrace.hot import patience_ns

from .tasks import Attempt

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from .agenda import Agenda
    from .model import Policies, SourceModel

_NS_PER_S = 1_000_000_000


class Root:
    """One root: when it was due and last sent, and how many incarnations it has had."""

    __slots__ = ("born_ns", "done", "id", "lineage", "replays", "sent_ns", "source")

    def __init__(self, number: int, source: SourceTask, now_ns: int) -> None:
        self.id = number
        self.source = source
        self.born_ns = self.sent_ns = now_ns
        self.lineage = root_lineage(number)
        self.replays = 0
        self.done = False


class SourceTask:
    """Open roots of one source task."""

    def __init__(
        self,
        source: SourceModel,
        index: int,
        agenda: Agenda,
        random: Random,
        send: Callable[[SourceTask, Attempt], None],
    ) -> None:
        self.index = index
        self.latencies_ns: list[tuple[int, int]] = []
        self.emitted = 0
        self.completed = 0
        self.replays = 0
        self._source = source
        self._agenda = agenda
        self._random = random
        self._send = send
        self._gap_ns = _NS_PER_S / source.rate_per_s
        self._due_ns = self._gap_ns * (index + 1) / source.tasks if source.arrivals == "periodic" else 0.0
        self._phases = [(each.from_s * _NS_PER_S, each.to_s * _NS_PER_S, each.factor) for each in source.phases]
        self._end_ns = 0
        self._open: dict[int, Root] = {}
        self._policies: Policies
        self._timeout: AdaptiveTimeout
        self._budget: ReplayBudget
        self._epoch = 0

    def __len__(self) -> int:
        return len(self._open)

    def apply(self, policies: Policies) -> None:
        """Take new policies; timeouts begin again."""
        self._policies = policies
        self._timeout, self._budget = AdaptiveTimeout(policies.timeout), ReplayBudget(policies.timeout)
        self._epoch += 1
        if policies.replay == "adaptive":
            now_ns = self._agenda.now_ns
            self._agenda.at(now_ns + round(policies.check_s * _NS_PER_S), self._check, self._epoch)
            self._agenda.at(now_ns + self._period_ns(), self._adjust, self._epoch)

    def start(self, end_ns: int) -> None:
        """Emit until a time."""
        self._end_ns = end_ns
        self._schedule()

    def _schedule(self) -> None:
        if self._source.arrivals == "poisson":
            self._due_ns += self._random.expovariate(1.0) * self._gap_now_ns()
        if self._due_ns < self._end_ns:
            self._agenda.at(round(self._due_ns), self._emit)
        if self._source.arrivals == "periodic":
            self._due_ns += self._gap_now_ns()

    def _gap_now_ns(self) -> float:
        """Between two roots at the rate that holds when the last one was due."""
        gap_ns = self._gap_ns
        for from_ns, to_ns, factor in self._phases:
            if from_ns <= self._due_ns < to_ns:
                gap_ns /= factor
        return gap_ns

    def _emit(self, _: None) -> None:
        self.emitted += 1
        root = Root(root_id(self.index + 1, self.emitted), self, self._agenda.now_ns)
        self._open[root.id] = root
        self._budget.earn(1)
        self._send(self, Attempt(root, 1 << REPLAY_BITS))
        if self._policies.replay == "blind" and self._random.random() < self._policies.blind_share:
            self._again(root)
        self._schedule()

    def ended(self, attempt: Attempt) -> None:
        """An incarnation is complete; the first one counts."""
        root: Root = attempt.root
        if root.done:
            return
        root.done = True
        self.completed += 1
        del self._open[root.id]
        now_ns = self._agenda.now_ns
        self._timeout.note([now_ns - root.born_ns])
        self.latencies_ns.append((root.born_ns, now_ns - root.born_ns))

    def _again(self, root: Root) -> None:
        root.replays += 1
        root.sent_ns = self._agenda.now_ns
        self.replays += 1
        self._send(self, Attempt(root, 1 << REPLAY_BITS | root.replays))

    # -- adaptive replay -------------------------------------------------------------------------------------------

    def _period_ns(self) -> int:
        return round(self._policies.timeout.period_s / self._policies.haste * _NS_PER_S)

    def _over(self, epoch: int) -> bool:
        """Whether timers of this epoch should stop: other policies hold now, or nothing is left to wait for."""
        return epoch != self._epoch or (self._agenda.now_ns >= self._end_ns and not self._open)

    def _adjust(self, epoch: int) -> None:
        if self._over(epoch):
            return
        now_ns = self._agenda.now_ns
        self._timeout.adjust([now_ns - root.born_ns for root in self._open.values()])
        self._agenda.at(now_ns + self._period_ns(), self._adjust, epoch)

    def _check(self, epoch: int) -> None:
        if self._over(epoch):
            return
        now_ns, timeout_ns = self._agenda.now_ns, self._timeout.timeout_ns
        late = []
        replays_max = self._timeout.settings.replays_max
        for root in self._open.values():
            if now_ns - root.born_ns <= timeout_ns:
                break  # the rest is younger
            wait_ns = patience_ns(root.replays, 0, timeout_ns, LONGEST_WAIT_NS)
            if root.replays < replays_max and now_ns - root.sent_ns > wait_ns:
                late.append(root)
        for root in late[: self._budget.take(len(late))]:
            self._again(root)
        self._agenda.at(now_ns + round(self._policies.check_s * _NS_PER_S), self._check, epoch)
