"""A whole query in one thread: the real brains of coordinator and workers, queues in memory, a clock moved by hand.

No socket, no thread, no process; the same seed gives the same interleaving. ``run`` takes a flow to its end;
``InProcess`` is for tests that look in between, move the clock, or lose a worker on purpose.
"""

from __future__ import annotations

import platform
import random
from collections import deque
from typing import TYPE_CHECKING, Any

from tailrace import protocol
from tailrace.checkpoint.driver_objects import DriverObjects
from tailrace.checkpoint.log import ManifestLog
from tailrace.checkpoint.settings import Checkpoint
from tailrace.clock import FakeClock
from tailrace.config import Policy, Settings
from tailrace.coordinator.brain import CoordinatorBrain
from tailrace.coordinator.callbacks import callback_error
from tailrace.coordinator.deployment import deal_partitions, program_of
from tailrace.coordinator.driver_sinks import begin_sink
from tailrace.coordinator.incoming import Received, Rewound, log_lines
from tailrace.coordinator.publisher import copied, entered, next_entry
from tailrace.coordinator.reporting.explain import explain
from tailrace.coordinator.resumption import resume
from tailrace.coordinator.savepoints.begin import begin_from
from tailrace.coordinator.savepoints.requests import SavepointRequest
from tailrace.errors import TailraceError
from tailrace.topology.contracts import SinkStart
from tailrace.version import __version__
from tailrace.worker.uplink.shared_memory import UplinkTable

from .connectors import Written
from .errors import EndlessError, StalledError
from .inprocess_worker import InProcessWorker
from .result import Result

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from typing_extensions import Self

    from tailrace.checkpoint.manifest import Manifest
    from tailrace.checkpoint.savepoint import Savepoint
    from tailrace.checkpoint.stores.store import ObjectStore
    from tailrace.topology.graph import Topology

_NS_PER_S = 1_000_000_000
#: How long a turn takes.
_TURN_NS = 100_000
#: How likely a write to the store waits for another turn.
_STORE_WAITS = 0.3
#: The clock moves at most so far at once, so that nothing timed is overstepped by much.
_STEP_NS = 100_000_000
#: A query in which nothing has moved for so long, on its own clock, is stuck; three replays at least.
_STALL_S = 120.0


def run(
    flow: Topology,
    *,
    workers: int = 1,
    policy: Policy | None = None,
    settings: Settings | None = None,
    clock: FakeClock | None = None,
    seed: int = 0,
    for_s: float | None = None,
) -> Result:
    """Run a flow to its end and give what came of it; raises what the query fails with.

    ``for_s`` stops it, drained, after so many seconds of the fake clock: for sources that never end.
    """
    endless = [spec.name for spec in flow.operators.values() if spec.kind == "source" and not spec.fn.bounded]
    if endless and for_s is None:
        raise EndlessError(f"A run ends with its sources; {endless[0]!r} never ends.", "Pass for_s=..., in seconds.")
    with InProcess(flow, workers=workers, policy=policy, settings=settings, clock=clock, seed=seed) as query:
        if for_s is not None:
            query.advance(for_s)
        return query.stop() if for_s is not None else query.finish()


class _OfHost:
    """The workers whose host has the same name share an uplink."""

    def __init__(self, host: str, table: UplinkTable) -> None:
        self._host = host
        self._table = table

    def meet(self, peers: Iterable[protocol.Peer]) -> tuple[frozenset[int], UplinkTable]:
        return frozenset(peer.slot for peer in peers if peer.host == self._host), self._table


class InProcess:
    """A query in process that a test takes forward by hand. Use it in a ``with`` block.

    Each worker is a node of its own unless ``nodes`` says over how many they are dealt. After every turn all brains
    check what must always hold, unless ``validate`` is off: where the time that a run takes is measured.
    """

    def __init__(
        self,
        flow: Topology,
        *,
        workers: int = 1,
        policy: Policy | None = None,
        settings: Settings | None = None,
        clock: FakeClock | None = None,
        seed: int = 0,
        nodes: int | None = None,
        validate: bool = True,
        store: ObjectStore | None = None,
        checkpoint: Checkpoint | None = None,
        restore: Savepoint | None = None,
    ) -> None:
        flow.validate()
        policy = policy or Policy()
        durable = store is not None
        self._program = program_of(flow, policy, settings or Settings(), durable=durable)
        self.clock = clock or FakeClock()
        #: Where checkpoints go, if there are any.
        self._store = store
        self._log = None if store is None else ManifestLog(store)
        partitions = deal_partitions(self._program.plan, durable=durable)
        if self._log is not None and restore is not None:
            begin_from(restore, self._log, self._program, partitions, None)
        self._objects = None if store is None else DriverObjects(store)
        resumed = None if self._log is None else resume(self._log, self._program, partitions)
        self.brain = CoordinatorBrain(
            "in-process",
            self._program,
            workers,
            partitions,
            platform.python_version(),
            None if store is None else checkpoint or Checkpoint("memory"),
            resumed,
        )
        self.logs: list[protocol.LogLine] = []
        self._rng = random.Random(seed)  # noqa: S311 - it chooses an order, nothing secret
        self._sinks = {name: spec.fn for name, spec in flow.operators.items() if spec.kind == "sink"}
        #: Per sink the task, number and value of what has come.
        self._collected: dict[str, list[tuple[int, int, Any]]] = {name: [] for name in self._sinks}
        self._cells: dict[int, InProcessWorker] = {}
        self._to_coordinator: deque[tuple[int, int, bytes]] = deque()
        self._stall_s = max(_STALL_S, 3 * policy.replay_timeout_s if policy.tracked else 0.0)
        self._lease_ns = int(self._program.settings.lease_s * _NS_PER_S)
        self._slots: dict[int, int] = {}
        self._connections = 0
        self._nodes = nodes or workers
        self._validates = validate
        #: The gate's table of each node.
        self._tables: dict[str, UplinkTable] = {}
        self._begin_sinks(resumed)
        for slot in range(workers):
            self._register(slot)

    def _begin_sinks(self, resumed: Manifest | None) -> None:
        """Begin as a query does, where there are checkpoints; else a sink may have been made ready by hand."""
        if self._objects is None:
            return
        for sink in self._sinks.values():
            begin_sink(sink, SinkStart(durable=True, resumed=resumed is not None))
        for each in self._objects.read(() if resumed is None else resumed.driver):
            self._receive(Received(each.operator, each.values, 0, 0, each.task, each.number))
            self.brain.received.resume([each])

    def __enter__(self) -> Self:
        while self.brain.state in {"registering", "deploying", "recovering"}:
            self._turn()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for cell in self._cells.values():
            cell.close()

    # -- what a test does ----------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Let everything happen that can happen without the clock moving."""
        self._until_quiet()
        self._raise_if_failed()

    def turns(self, count: int) -> None:
        """Give every worker so many turns, each of a little mail and a little work: to stop in the midst of things."""
        for _ in range(count):
            self.clock.advance(_TURN_NS)
            self._turn()

    def advance(self, seconds: float) -> None:
        """Move the clock, letting everything happen when it is due."""
        self._advance_to(self.clock.now_ns() + int(seconds * _NS_PER_S))
        self._raise_if_failed()

    def kill(self, slot: int, *, comes_back: bool = True) -> None:
        """Lose a worker, its state and the mail it has not read; a new one registers in its place, or does not yet."""
        self._cells.pop(self._lose(slot)).close()
        if comes_back:
            self._register(slot)

    def come_back(self, slot: int) -> None:
        """Let a new worker register in the place of one that was lost."""
        self._register(slot)

    def is_here(self, slot: int) -> bool:
        """Whether a slot has a worker."""
        return slot in self._slots.values()

    def cut_off(self, slot: int) -> None:
        """Let the coordinator give a worker up, and another take its slot; it works on until its lease is over."""
        self._lose(slot)
        self._register(slot)

    def finish(self) -> Result:
        """Go on until all sources have ended and everything of theirs is complete."""
        still_since_ns, before = self.clock.now_ns(), -1
        while self.brain.state != "ended":
            if self._moved() != before or any(cell.waits_for_a_time for cell in self._cells.values()):
                still_since_ns, before = self.clock.now_ns(), self._moved()
            elif self.clock.now_ns() - still_since_ns > self._stall_s * _NS_PER_S:
                raise StalledError(
                    f"For {self._stall_s:.0f} s of its clock nothing has moved in the query.\n{self.explain()}",
                    "An open-ended TestSource ends with end(); an awaited call that never returns holds its query up.",
                )
            self._advance_to(self._next_ns())
        self._until_quiet()
        self.brain.close_book(self.clock.now_ns())
        self._raise_if_failed()
        return self.result()

    def stop(self) -> Result:
        """Read nothing more, finish what is open and end."""
        self.brain.drain(self.clock.now_ns())
        return self.finish()

    def ask_savepoint(self, target: ObjectStore, *, drained: bool) -> SavepointRequest:
        """Ask for a savepoint as a user's thread does; it is made while the query is taken on."""
        request = SavepointRequest(target, drained=drained)
        if self.brain.checkpoints is not None:
            self.brain.checkpoints.savepoints.ask(request)
        return request

    def values(self, sink_name: str | None = None) -> list[Any]:
        """The values that have arrived at a sink so far."""
        return self.result().values(sink_name)

    def result(self) -> Result:
        """What the query has given so far."""
        progress = [{"name": self._program.plan.name, **each} for each in self.brain.book.recent]
        names = ("completed", "pending", "replays", "duplicates", "skipped", "deadLetters")
        counters = {name: int(progress[-1][name]) for name in names} if progress else {}
        counters["read"] = sum(row.get("read", 0) for row in progress[-1]["stages"]) if progress else 0
        counters["restarts"] = self.brain.restarts
        counters["refused_messages"] = sum(cell.brain.refused_messages for cell in self._cells.values())
        collected = {name: [value for _, _, value in rows] for name, rows in self._collected.items()}
        return Result(collected, progress, counters, self.logs)

    def explain(self) -> str:
        """Say what runs where."""
        return explain(self._program, self.brain, "this very process")

    # -- joining and leaving -------------------------------------------------------------------------------------

    def _register(self, slot: int) -> None:
        self._connections += 1
        number = self._connections
        self._slots[number] = slot
        peer = protocol.Peer(slot, 0, f"node-{slot % self._nodes}", ("in-process", number))
        register = protocol.Register(slot, number, 0, "in-process", peer, __version__, platform.python_version())
        self.brain.on_message(number, slot, register, self.clock.now_ns())
        neighbours = _OfHost(peer.host, self._tables.setdefault(peer.host, UplinkTable.in_memory()))
        attempt = self.brain.members[slot].attempt
        self._cells[number] = InProcessWorker(slot, attempt, self.clock, self._find, neighbours, self._store)

    def _find(self, slot: int, attempt: int) -> InProcessWorker | None:
        return next(
            (each for each in self._cells.values() if (each.brain.slot, each.brain.attempt) == (slot, attempt)), None
        )

    def _lose(self, slot: int) -> int:
        number = self.brain.members[slot].connection
        self._slots.pop(number)
        self._cells[number].orders.clear()
        self.brain.on_gone(number, self.clock.now_ns())
        return number

    # -- turns ---------------------------------------------------------------------------------------------------

    def _until_quiet(self) -> None:
        # Twice, because the last thing a quiet worker does is to hand over what makes work in its own tasks.
        while self._turn() or self._turn():
            pass

    def _turn(self) -> bool:
        cells = list(self._cells.items())
        self._rng.shuffle(cells)
        moved = False
        for number, cell in cells:
            if number not in self._slots and self.clock.now_ns() - cell.heard_ns > self._lease_ns:
                cell.brain.stopped = True
            if not cell.brain.stopped:
                moved = cell.turn(self._rng) or moved
            while cell.brain.control_out:
                line = protocol.encode(cell.brain.control_out.popleft())
                self._to_coordinator.append((number, cell.brain.slot, line))
        moved = self._coordinate() or moved
        if self._validates:
            self.brain.validate()
            for cell in self._cells.values():
                cell.brain.validate()
        return moved

    def _coordinate(self) -> bool:
        moved = bool(self._to_coordinator)
        now_ns = self.clock.now_ns()
        for _ in range(self._rng.randint(0, len(self._to_coordinator))):
            number, slot, line = self._to_coordinator.popleft()
            if number in self._slots:  # else its connection is gone, and what it said with it
                self.brain.on_message(number, slot, protocol.decode_from_worker(line), now_ns)
        self.brain.tick(now_ns)
        moved = self._publish() or moved
        self._hand_to_sinks()  # before orders go out: that values are taken is one of them
        while self.brain.out:
            moved = True
            number, message = self.brain.out.popleft()
            if number in self._slots:
                self._cells[number].orders.append(protocol.decode_from_coordinator(protocol.encode(message)))
        return moved

    def _publish(self) -> bool:
        """Write what is to be published, sooner or later."""
        checkpoints = self.brain.checkpoints
        if checkpoints is None or self._log is None or self._objects is None:
            return False
        if self._rng.random() >= _STORE_WAITS and (request := checkpoints.savepoints.next_to_copy()) is not None:
            checkpoints.copied(request, *copied(request, self._log.store))
            return True
        if not checkpoints.publish:
            return False
        if self._rng.random() < _STORE_WAITS or (found := next_entry(self.brain)) is None:
            return True
        (manifest, values), error = found, None
        try:
            manifest = self._objects.add(manifest, values)
            self._log.append(manifest)
        except TailraceError as raised:
            error = raised
        entered(self.brain, manifest, values, error, self.clock.now_ns())
        return True

    def _hand_to_sinks(self) -> None:
        lines, dropped = self.brain.logs.take()
        self.logs += lines
        log_lines(lines, dropped)
        while self.brain.received:
            item = self.brain.received.popleft()
            if isinstance(item, Rewound):
                self._rewind(item)
                continue
            try:
                if item.number >= 0:
                    self._receive(item)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's sink may raise anything
                self.brain.fail(callback_error(f"receive() of sink {item.operator!r}", error))
            self.brain.taken({item.connection: item.serial})

    def _receive(self, item: Received) -> None:
        values = item.loaded()
        found = values.values if isinstance(values, Written) else values
        self._collected[item.operator] += [(item.task, item.number, value) for value in found]
        self._sinks[item.operator].receive_from(item.task, item.number, values)

    def _rewind(self, rewound: Rewound) -> None:
        for name, sink in self._sinks.items():
            numbers = rewound.of(name)
            self._collected[name] = [row for row in self._collected[name] if row[1] < numbers.get(row[0], 0)]
            sink.rewind(numbers)

    # -- time ----------------------------------------------------------------------------------------------------

    def _advance_to(self, until_ns: int) -> None:
        self._until_quiet()
        while self.clock.now_ns() < until_ns and self.brain.state != "ended":
            self.clock.advance(min(self._next_ns(), until_ns) - self.clock.now_ns())
            self._until_quiet()

    def _next_ns(self) -> int:
        due_ns = [cell.next_ns() for number, cell in self._cells.items() if number in self._slots]
        return min(due_ns, default=self.clock.now_ns() + _STEP_NS)

    def _moved(self) -> int:
        return sum(task.tuples_in for cell in self._cells.values() for task in cell.brain.tasks) + len(self._slots)

    def _raise_if_failed(self) -> None:
        if self.brain.error is not None:
            raise self.brain.error
