"""A running topology as its user sees it, with the habits of PySpark's StreamingQuery.

``Query`` puts the pieces together: plan, coordinator, host. Who else takes part in it is in ``interfaces``.
"""

from __future__ import annotations

import platform
import secrets
import uuid
from typing import TYPE_CHECKING, Any

from tailrace.checkpoint.driver_objects import DriverObjects
from tailrace.clock import SystemClock
from tailrace.coordinator.interfaces import Host, QueryListener
from tailrace.coordinator.migration.multi_query import REGISTRY, busy_by_host
from tailrace.coordinator.operations.move_api import MoveApi
from tailrace.errors import ConfigError
from tailrace.metrics.page import MetricsPage
from tailrace.metrics.prometheus import render
from tailrace.program.boot import Boot
from tailrace.topology.contracts import SinkStart
from tailrace.transport.handshake import SECRET_BYTES

from .availability import AllAvailable
from .brain import CoordinatorBrain
from .callbacks import Callbacks
from .deployment import deal_partitions, program_of
from .driver_sinks import begin_sink, give_again
from .ending import Ending
from .errors import QueryError, StartError
from .loop import CoordinatorLoop
from .publisher import Publisher
from .reporting.events import listener_of
from .reporting.explain import Explained, explain
from .reporting.progress import percentiles
from .reporting.stuck import waited_for
from .resumption import open_log, relay_of, resume
from .savepoints.api import SavepointApi
from .savepoints.begin import begin_from
from .state_view import StateView

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from tailrace.checkpoint.savepoint import Savepoint, WrittenSavepoint
    from tailrace.checkpoint.settings import Checkpoint
    from tailrace.config import Policy, Settings
    from tailrace.coordinator.interfaces import Companion
    from tailrace.protocol import FromCoordinator
    from tailrace.topology.graph import Topology

#: How long a start that failed waits for what it has begun; each part has its own, shorter limit.
_ABANDON_S = 30.0


class Query:
    """A started topology."""

    def __init__(
        self,
        topology: Topology,
        host: Host,
        policy: Policy,
        settings: Settings,
        checkpoint: Checkpoint | None = None,
        restore: Savepoint | None = None,
    ) -> None:
        self.id = str(uuid.uuid4())
        #: A query is started once, so this is as good as its id; for those who read PySpark's name.
        self.runId = str(uuid.uuid4())
        self.name = topology.name
        self._host = host
        durable = checkpoint is not None
        self._program = program_of(topology, policy, settings, durable=durable)
        partitions = deal_partitions(self._program.plan, durable=durable)
        log = None if checkpoint is None else open_log(checkpoint, host.spark)
        if log is not None and restore is not None:
            begin_from(restore, log, self._program, partitions, host.spark)
        resumed = (
            None
            if log is None or checkpoint is None
            else resume(log, self._program, partitions, accept_older=checkpoint.accept_older)
        )
        self._brain = CoordinatorBrain(
            self.id, self._program, host.workers, partitions, platform.python_version(), checkpoint, resumed
        )
        self._sink_start = SinkStart(durable, resumed is not None)
        objects = None if log is None else DriverObjects(log.store)
        self._remembered = [] if objects is None or resumed is None else objects.read(resumed.driver)
        self._brain.received.resume(self._remembered)
        self._brain.busy = lambda: busy_by_host(REGISTRY.running(host.session, besides=self.id))
        secret = secrets.token_bytes(SECRET_BYTES)
        self._loop = CoordinatorLoop(
            self._brain, SystemClock(), host.bind_host, secret, settings.frame_bytes_max
        )  # fmt: skip
        self._publisher = None
        if log is not None and objects is not None and checkpoint is not None:
            self._publisher = Publisher(self._loop, log, objects, checkpoint.keep)
        self._relay = None if log is None else relay_of(log, host, secret)
        relay = None if self._relay is None else (host.driver_host, self._relay.port)
        self._boot = Boot(self.id, (host.driver_host, self._loop.port), secret, settings, self.name, checkpoint, relay)
        self._move_api = MoveApi(self._loop, self._brain, self._program, host, self._boot)
        self._savepoint_api = SavepointApi(self._loop, self._brain, host)
        self._sinks = {name: spec.fn for name, spec in topology.operators.items() if spec.kind == "sink"}
        self._callbacks = Callbacks(self, self._loop, self._brain, self._sinks)
        self._ending = Ending(self, self._loop, self._brain, self._callbacks, host)
        self._all_available = AllAvailable(self._loop, self._brain, self._callbacks, self._ending)

    # -- starting and ending -------------------------------------------------------------------------------------

    def start(self) -> Query:
        """Start the workers and wait until all are open; a failure to start is raised here."""
        try:
            self._ending.start()
            self._open_metrics()  # first of all: a port that is taken is known before anything runs
            for name, sink in self._sinks.items():
                self._ending.begun[name] = sink.finish
                begin_sink(sink, self._sink_start)
            give_again(self._sinks, self._remembered)
            self._loop.on_tick = self._on_tick
            self._callbacks.start()
            if self._relay is not None:
                self._relay.start()
                self.on_end(self._relay.close)
            if self._publisher is not None:
                self._publisher.start()
                self.on_end(self._publisher.close)
            self._loop.start()
            REGISTRY.enter(self._host.session, self.id, self._move_api)
            self._host.launch(self._boot)
            self._await_start()
        except BaseException as error:
            self._abandon(error)
            raise
        return self

    def _open_metrics(self) -> None:
        port = self._program.settings.prometheus_port
        if port:
            self.on_end(MetricsPage(port, lambda: render(self.name, self.lastProgress)).close)

    def _await_start(self) -> None:
        while not self._ending.finished.wait(0.02):
            if self._brain.started:
                for companion in self._callbacks.companions:
                    companion.running(self)
                return
        if self._brain.error is not None and not self._brain.started:
            raise self._brain.error

    def _abandon(self, error: BaseException) -> None:
        """End what a start that failed has begun, and wait for that."""
        named = error if isinstance(error, Exception) else QueryError(f"The start was broken off: {error!r}.")
        self._loop.ask(lambda brain, _: brain.fail_even_late(named))
        self._loop.close_if_idle()
        self._ending.hurry()
        self._ending.finished.wait(_ABANDON_S)

    def accompany(self, companion: Companion) -> None:
        """Let something live and end with this query."""
        self._callbacks.companions.append(companion)

    @property
    def worker_pids(self) -> dict[int, int]:
        """The process of each worker, on the node where it runs."""
        return {slot: member.register.pid for slot, member in sorted(self._brain.members.items())}

    def partitions_of(self, operator: str) -> dict[str, int]:
        """The numbers of a source's partitions, by name."""
        return {
            name: number
            for number, stage, _, name in self._brain.partitions
            if self._program.plan.stages[stage].head.name == operator
        }

    def fail(self, error: Exception) -> None:
        """End the query because of an error from outside; the first one counts."""
        self._loop.ask(lambda brain, _: brain.fail(error))

    def tell_workers(self, message: FromCoordinator) -> None:
        """Send a message to every worker."""
        self._loop.ask(lambda brain, _: brain.tell_all(message))

    def on_end(self, action: Callable[[], None]) -> None:
        """Do something after the query has ended and its workers are gone."""
        self._ending.actions.append(action)

    def _on_tick(self) -> None:
        failure = self._host.failure()
        if failure is not None and self._brain.state != "ended":
            self._loop.ask(lambda brain, _: brain.fail(failure))
        self._callbacks.wake()

    # -- PySpark's habits ----------------------------------------------------------------------------------------

    @property
    def isActive(self) -> bool:  # noqa: N802 - PySpark's name
        """Whether the query still runs."""
        return not self._ending.finished.is_set()

    @property
    def status(self) -> dict[str, Any]:
        """What the query is doing."""
        messages = {
            "registering": "Waiting for workers",
            "deploying": f"Opening operators{waited_for(self._brain.members)}",
            "running": "Draining" if self._brain.draining else "Processing tuples",
            "ended": "Stopped" if self._brain.error is None else "Failed",
        }
        state = self._brain.state
        return {
            "message": messages[state],
            "isDataAvailable": state == "running",
            "isTriggerActive": state == "running",
        }

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802 - PySpark's name
        """The newest progress report, None before the first."""
        recent = self.recentProgress
        return recent[-1] if recent else None

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802 - PySpark's name
        """The newest progress reports, oldest first."""
        return [{"id": self.id, "name": self.name, **progress} for progress in list(self._brain.book.recent)]

    @property
    def latency(self) -> dict[str, float]:
        """Complete latencies over the whole run, counted from when each record was due."""
        return percentiles(self._brain.book.latency_total)

    def explain(self, *, text: bool = True) -> Explained:
        """Say what runs where, how workers talk and which policies decide; at any time, also after the end.

        Print it, or call it bare in a shell. ``text`` is taken for the sake of older programs.
        """
        del text
        return Explained(self._loop.look(lambda brain: explain(self._program, brain, self._host.describe())))

    def switch(self, **steps: str) -> None:
        """Choose policies by hand while the query runs: ``query.switch(routing="shortest_delay")``.

        For the steps that were left to the coordinator (``Policy.auto()``), which chooses again once this is called
        without any. Nothing is lost or counted twice by it.
        """
        self._brain.autopilot.check(steps)
        self._loop.ask(lambda brain, _: brain.switch(steps))

    def exception(self) -> Exception | None:
        """Why the query failed, None if it did not."""
        return self._brain.error

    def awaitTermination(self, timeout: float | None = None) -> bool | None:  # noqa: N802 - PySpark's name
        """Wait for the end; raises if the query failed. With a timeout in seconds, tells whether it has ended."""
        self._ending.check_may_wait("awaitTermination()")
        ended = self._ending.finished.wait(timeout)
        if ended and self._brain.error is not None:
            raise self._brain.error
        return ended if timeout is not None else None

    def processAllAvailable(self) -> None:  # noqa: N802 - PySpark's name
        """Wait until everything that sources had at the call is complete; raises if the query fails. For tests.

        A source has had everything when it has nothing due, or a read gives nothing: one that always has more, such as
        ``rate(inf)``, is waited for until the query ends.
        """
        self._all_available.process()

    def savepoint(
        self, path: Savepoint | str | os.PathLike[str], *, timeout_s: float | None = None
    ) -> WrittenSavepoint:
        """Copy the query's state, as it is now, to a place of its own, for ``tr.start(restore=)``; the query goes on.

        Needs a query with a checkpoint. What is resumed from it has the same topology; ``stop(savepoint=)`` makes one
        that allows others. A ``tr.Savepoint`` in place of a path has ``options`` for the store.
        """
        return self._savepoint_api.make(path, drained=False, timeout_s=timeout_s)

    def stop(
        self, *, now: bool = False, savepoint: Savepoint | str | os.PathLike[str] | None = None
    ) -> WrittenSavepoint | None:
        """Read nothing more, finish what is open and end; with ``now=True`` end at once. Waits for the end.

        With a ``savepoint``, a path where there is nothing yet, the input is not ended but held: nothing is closed and
        nothing final emitted, and the query can go on from there, with other task counts or operators, too. Where open
        tuples do not come to an end within ``drain_timeout_s``, ``DrainTimeoutError`` is raised and the query runs on.

        Raises what keeps the query from stopping. One that has failed before stops quietly: ``exception()`` has why. A
        second Ctrl-C while this waits ends the query at once. Called from a listener or a sink it does not wait.
        """
        if savepoint is not None and now:
            raise ConfigError(
                "stop() either makes a savepoint or ends the query at once.", "Leave now=True or savepoint= out."
            )
        written = None
        if savepoint is not None:
            written = self._savepoint_api.make(savepoint, drained=True, timeout_s=None)
        failed_before = self._brain.error is not None
        try:
            self._ending.stop(now=now)
        except KeyboardInterrupt:
            self._ending.stop(now=True)
            raise
        if not now and not failed_before and self._brain.error is not None:
            raise self._brain.error
        return written

    def state(self, operator: str) -> StateView:
        """Read the states of a keyed operator while the query runs: ``query.state("counts").get("word")``."""
        return StateView(self._loop, self._brain, operator)

    # -- moving tasks --------------------------------------------------------------------------------------------

    def move(self, operator: str, task: int, worker: int) -> list[dict[str, Any]]:
        """Move one task to another worker while the query runs, and tell how that went; raises if it stays."""
        return self._move_api.move(operator, task, worker)

    def move_keys(
        self, operator: str, keys: Iterable[Any] = (), *, task: int, groups: Iterable[int] = ()
    ) -> list[dict[str, Any]]:
        """Move keys to another task of their operator while the query runs, and tell how; raises if they stay.

        A key goes with all others of its key group; ``groups`` names whole groups, see ``key_groups_of``.
        """
        return self._move_api.move_keys(operator, keys, groups, task)

    def key_groups_of(self, operator: str) -> list[int]:
        """The task that each key group of an operator is at now."""
        return self._move_api.key_groups_of(operator)

    def workers_of(self, operator: str) -> list[int]:
        """The worker that each task of an operator is on now."""
        return self._move_api.workers_of(operator)

    def rebalance(self, policy: str | None = None) -> list[dict[str, Any]]:
        """Place all tasks again by what was measured, and move those that have another place then.

        ``policy`` is ``spread`` (even the load out with few moves) or a placement policy; the one of
        ``Policy(rebalance=...)`` if it is not given.
        """
        return self._move_api.rebalance(policy)

    def rebalance_session(self, policy: str = "auto") -> dict[str, list[dict[str, Any]]]:
        """Place this and all other queries of its Spark session as one graph, and tell per query id what moved."""
        return REGISTRY.rebalance(self._host.session, policy)

    def scale(self, workers: int) -> list[dict[str, Any]]:
        """Go on with more workers, which get their share, or with fewer: the newest are emptied and leave."""
        return self._move_api.scale(workers)

    def addListener(self, listener: Any) -> None:  # noqa: N802 - PySpark's name
        """Tell a ``QueryListener``, or a ``StreamingQueryListener`` of PySpark's, of progress and of the end."""
        self._callbacks.listeners.append(listener_of(listener))

    def removeListener(self, listener: Any) -> None:  # noqa: N802 - PySpark's name
        """Tell a listener nothing more."""
        known = self._callbacks.listeners
        known[:] = [each for each in known if each is not listener and getattr(each, "listener", None) is not listener]

    def __repr__(self) -> str:
        return f"<tailrace query {self.name!r} {self.id}: {self.status['message']}>"


__all__ = ["Host", "Query", "QueryError", "QueryListener", "StartError"]
