"""A running topology as its user sees it, with the habits of PySpark's StreamingQuery.

``Query`` puts the pieces together: plan, coordinator, host. Who else takes part in it is in ``parties``.
"""

from __future__ import annotations

import logging
import platform
import secrets
import threading
import uuid
from typing import TYPE_CHECKING, Any

from tailrace.clock import SystemClock
from tailrace.errors import ConfigError
from tailrace.metrics.prometheus import MetricsPage, render
from tailrace.transport.handshake import SECRET_BYTES
from tailrace.worker.main import Boot

from .brain import CoordinatorBrain
from .deployment import deal_partitions, program_of
from .errors import QueryError, StartError
from .explain import explain
from .loop import CoordinatorLoop
from .parties import Host, QueryListener
from .progress import percentiles
from .relocating import Relocation
from .stuck import waited_for
from .together import REGISTRY, busy_by_host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tailrace.config import Policy, Settings
    from tailrace.protocol import FromCoordinator
    from tailrace.topology.graph import Topology

    from .parties import Companion

_log = logging.getLogger("tailrace")
_HOST_STOP_S = 15.0
_HOST_ABORT_S = 1.0


class Query:
    """A started topology."""

    def __init__(self, topology: Topology, host: Host, policy: Policy, settings: Settings) -> None:
        self.id = str(uuid.uuid4())
        self.name = topology.name
        self._host = host
        self._program = program_of(topology, policy, settings)
        self._brain = CoordinatorBrain(
            self.id, self._program, host.workers, deal_partitions(self._program.plan), platform.python_version()
        )
        self._brain.busy = lambda: busy_by_host(REGISTRY.running(host.session, besides=self.id))
        secret = secrets.token_bytes(SECRET_BYTES)
        self._loop = CoordinatorLoop(
            self._brain, SystemClock(), host.bind_host, secret, settings.frame_bytes_max
        )  # fmt: skip
        self._boot = Boot(self.id, (host.driver_host, self._loop.port), secret, settings)
        self._relocation = Relocation(self._loop, self._brain, self._program, host, self._boot)
        self._sinks = {name: spec.fn for name, spec in topology.operators.items() if spec.kind == "sink"}
        self._listeners: list[QueryListener] = []
        self._seen_progress = 0
        self._was_running = False
        self._finished = threading.Event()
        self._on_end: list[Callable[[], None]] = []
        self._companions: list[Companion] = []

    # -- starting ------------------------------------------------------------------------------------------------

    def start(self) -> Query:
        """Start the workers and wait until all are open; a failure to start is raised here."""
        for sink in self._sinks.values():
            sink.begin()
        self._loop.on_tick = self._on_tick
        self._loop.start()
        if self._program.settings.prometheus_port:
            self._serve_metrics()
        try:
            self._host.launch(self._boot)
        except Exception as error:
            self._loop.ask(lambda brain, _, error=error: brain.fail(error))  # type: ignore[misc]
            self._finish()
            raise
        REGISTRY.enter(self._host.session, self.id, self._relocation)
        threading.Thread(target=self._finish_when_ended, name="tailrace-query", daemon=True).start()
        while not self._finished.wait(0.02):
            if self._brain.started:
                for companion in self._companions:
                    companion.running(self)
                return self
        if self._brain.error is not None and not self._brain.started:
            raise self._brain.error
        return self

    def _serve_metrics(self) -> None:
        port = self._program.settings.prometheus_port
        try:
            page = MetricsPage(port, lambda: render(self.name, self.lastProgress))
        except OSError as error:
            self._loop.ask(lambda brain, _: brain.stop_now())
            raise ConfigError(
                f"The setting prometheus_port asks for port {port} on loopback; it cannot be had: {error.strerror}.",
                "Choose a free port, or 0 to show no metrics.",
            ) from error
        self.on_end(page.close)

    def _finish_when_ended(self) -> None:
        self._loop.ended.wait()
        self._finish()

    def _finish(self) -> None:
        self._loop.join(_HOST_STOP_S)
        # Workers that never opened have nothing to finish.
        self._host.stop(_HOST_STOP_S if self._was_running else _HOST_ABORT_S)
        REGISTRY.leave(self._host.session, self.id)
        self._hand_to_sinks()
        for companion in self._companions:
            companion.ended()
        for sink in self._sinks.values():
            self._let(sink.finish, self._brain.error)
        for action in self._on_end:
            action()
        self._tell_listeners(lambda listener: listener.onQueryTerminated(self, self._brain.error))
        self._finished.set()

    def accompany(self, companion: Companion) -> None:
        """Let something live and end with this query."""
        self._companions.append(companion)

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

    def _let(self, act: Callable[..., None], *args: Any) -> None:
        """Call a user's sink; what it raises ends the query."""
        try:
            act(*args)
        except Exception as error:  # noqa: BLE001 - a user's sink may raise anything
            self._loop.ask(lambda brain, _, error=error: brain.fail(error))  # type: ignore[misc]
            if self._brain.error is None:
                self._brain.error = error

    def on_end(self, action: Callable[[], None]) -> None:
        """Do something after the query has ended and its workers are gone."""
        self._on_end.append(action)

    def _on_tick(self) -> None:
        failure = self._host.failure()
        if failure is not None and self._brain.state != "ended":
            self._loop.ask(lambda brain, _: brain.fail(failure))
        marks = dict(self._brain.marks)  # before sinks get what came of them
        while self._brain.logs:
            line = self._brain.logs.popleft()
            logging.getLogger(f"tailrace.operator.{line.operator}").log(
                line.level, "[task %d] %s", line.task, line.text
            )
        self._hand_to_sinks()
        for sink in self._sinks.values():
            self._let(sink.attend)
        for companion in self._companions:
            companion.attend(marks)
        if not self._was_running and self._brain.started:
            self._was_running = True
            self._tell_listeners(lambda listener: listener.onQueryStarted(self))
        progress = self.lastProgress
        if progress is not None and progress["sequence"] != self._seen_progress:
            self._seen_progress = progress["sequence"]
            self._tell_listeners(lambda listener: listener.onQueryProgress(self, progress))

    def _tell_listeners(self, tell: Callable[[QueryListener], None]) -> None:
        """Tell all listeners; one that raises is logged and ends neither the query nor the telling."""
        for listener in list(self._listeners):
            try:
                tell(listener)
            except Exception:  # noqa: BLE001, PERF203 - a user's listener may raise anything
                _log.exception("a listener of query %s failed", self.name)

    def _hand_to_sinks(self) -> None:
        """Give the user's own sink objects what their tasks sent to the driver."""
        while self._brain.received:
            operator, values = self._brain.received.popleft()
            self._let(self._sinks[operator].receive, values)

    # -- PySpark's habits ----------------------------------------------------------------------------------------

    @property
    def isActive(self) -> bool:  # noqa: N802 - PySpark's name
        """Whether the query still runs."""
        return not self._finished.is_set()

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

    def explain(self, *, text: bool = False) -> str | None:
        """Print (or, with ``text=True``, return) what runs where, how workers talk and which policies decide."""
        shown = explain(self._program, self._brain, self._host.describe())
        if text:
            return shown
        print(shown)  # noqa: T201 - what explain() is for, as in PySpark
        return None

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
        ended = self._finished.wait(timeout)
        if ended and self._brain.error is not None:
            raise self._brain.error
        return ended if timeout is not None else None

    def stop(self, *, now: bool = False) -> None:
        """Read nothing more, finish what is open and end; with ``now=True`` end at once. Waits for the end."""
        for companion in self._companions:
            companion.stopping(now=now)
        self._loop.ask(lambda brain, now_ns: brain.stop_now() if now else brain.drain(now_ns))
        self._finished.wait(self._program.settings.drain_timeout_s + 2 * _HOST_STOP_S)
        if not now and self._brain.error is not None:
            raise self._brain.error

    # -- moving tasks --------------------------------------------------------------------------------------------

    def move(self, operator: str, task: int, worker: int) -> list[dict[str, Any]]:
        """Move one task to another worker while the query runs, and tell how that went; raises if it stays."""
        return self._relocation.move(operator, task, worker)

    def move_keys(
        self, operator: str, keys: Iterable[Any] = (), *, task: int, groups: Iterable[int] = ()
    ) -> list[dict[str, Any]]:
        """Move keys to another task of their operator while the query runs, and tell how; raises if they stay.

        A key goes with all others of its key group; ``groups`` names whole groups, see ``key_groups_of``.
        """
        return self._relocation.move_keys(operator, keys, groups, task)

    def key_groups_of(self, operator: str) -> list[int]:
        """The task that each key group of an operator is at now."""
        return self._relocation.key_groups_of(operator)

    def workers_of(self, operator: str) -> list[int]:
        """The worker that each task of an operator is on now."""
        return self._relocation.workers_of(operator)

    def rebalance(self, policy: str | None = None) -> list[dict[str, Any]]:
        """Place all tasks anew by what was measured, and move those that have another place then.

        ``policy`` is ``spread`` (even the load out with few moves) or a placement policy; the one of
        ``Policy(rebalance=...)`` if it is not given.
        """
        return self._relocation.rebalance(policy)

    def rebalance_session(self, policy: str = "auto") -> dict[str, list[dict[str, Any]]]:
        """Place this and all other queries of its Spark session as one graph, and tell per query id what moved."""
        return REGISTRY.rebalance(self._host.session, policy)

    def scale(self, workers: int) -> list[dict[str, Any]]:
        """Go on with more workers, which get their share, or with fewer: the newest are emptied and leave."""
        return self._relocation.scale(workers)

    def addListener(self, listener: QueryListener) -> None:  # noqa: N802 - PySpark's name
        """Tell a listener of progress and of the end."""
        self._listeners.append(listener)

    def removeListener(self, listener: QueryListener) -> None:  # noqa: N802 - PySpark's name
        """Tell a listener nothing more."""
        self._listeners.remove(listener)

    def __repr__(self) -> str:
        return f"<tailrace query {self.name!r} {self.id}: {self.status['message']}>"


__all__ = ["Host", "Query", "QueryError", "QueryListener", "StartError"]
