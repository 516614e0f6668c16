"""The operators of one stage in one task, connected: values go in at the head, outputs come out per edge.

``run`` is user code and nothing else, so the loop may call it in any thread; what it gives is routed by the brain.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from tailrace.worker.execution.keyed_steps import Aggregate, Count, KeyedProcess, Reduce
from tailrace.worker.execution.steps import (
    FAILED,
    At,
    Branch,
    Filter,
    FlatMap,
    Map,
    Pass,
    Process,
    SinkStep,
    Step,
    listed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.state.backend import BackendFactory, StateBackend
    from tailrace.topology.operators import OperatorSpec, TaskContext
    from tailrace.topology.plan import Stage, StageEdge
    from tailrace.worker.execution.steps import Sizes
    from tailrace.worker.execution.task import Work

STEPS: dict[str, type[Step]] = {
    "source": Pass,
    "map": Map,
    "filter": Filter,
    "flat_map": FlatMap,
    "process": Process,
    "branch": Branch,
    "sink": SinkStep,
}
#: Those that are made with a backend for their state.
KEYED_STEPS: dict[str, Callable[[OperatorSpec, TaskContext, StateBackend], Step]] = {
    "keyed_process": KeyedProcess,
    "count": Count,
    "reduce": Reduce,
    "aggregate": Aggregate,
}

#: What a run gave: per outgoing edge the values and the size of each bundle.
Outputs = list[tuple[int, list[Any], "Sizes"]]


def make_step(spec: OperatorSpec, ctx: TaskContext, backend_of: BackendFactory) -> Step:
    """Make the step of an operator, with state of its own where it keeps any by key."""
    if spec.verb in KEYED_STEPS:
        return KEYED_STEPS[spec.verb](spec, ctx, backend_of(spec.name))
    if spec.verb == "map_batches":
        from tailrace.worker.execution.batch_steps import MapBatches  # noqa: PLC0415 - only topologies that use it need Arrow

        return MapBatches(spec, ctx)
    return STEPS[spec.verb](spec, ctx)


class Chain:
    """The steps of a stage. Not shared between threads: the task runs it in one at a time."""

    def __init__(
        self,
        stage: Stage,
        edges: tuple[StageEdge, ...],
        context_of: Callable[[OperatorSpec], TaskContext],
        backend_of: BackendFactory,
    ) -> None:
        self.steps = {spec.name: make_step(spec, context_of(spec), backend_of) for spec in stage.operators}
        self.head = self.steps[stage.head.name]
        #: Whether a sink among the operators asks what its values came of.
        self.wants_origins = any(isinstance(step, SinkStep) and step.sink.wants_origins for step in self.steps.values())
        #: A number per input value of the batch at hand, the same for every incarnation; None where nothing is tracked.
        self.origins: Sequence[int] | None = None
        #: The operator whose code runs, or ran last.
        self.at = At(stage.head.name)
        #: Those that were opened and not closed yet, upstream first.
        self._open: list[Step] = []
        #: The one whose ``open()`` has not come to its end, or has failed.
        self._half_open: Step | None = None
        self._collected: Outputs = []
        for step in self.steps.values():
            step.origins = self._origins
            step.at = self.at
        for link in stage.links:
            self.steps[link.src].consumers.setdefault(link.port, []).append(self.steps[link.dst].feed)
        for edge in edges:
            self.steps[edge.src].consumers.setdefault(edge.port, []).append(self._collector(edge.id))
        #: Sinks that publish with the epochs of a checkpoint.
        self.transactional = [
            step for step in self.steps.values() if isinstance(step, SinkStep) and step.outlives_input
        ]
        self._tickers = [step for step in self.steps.values() if step.tick_every_s is not None]

    def _origins(self) -> Sequence[int] | None:
        return self.origins

    def _collector(self, edge: int) -> Callable[[list[Any], Sizes], None]:
        def collect(values: list[Any], sizes: Sizes) -> None:
            self._collected.append((edge, values, sizes))

        return collect

    def open(self, *, ended: bool = False) -> None:
        """Open all operators, upstream first; where the input has ended, those that still have something to do."""
        for step in self.transactional if ended else self.steps.values():
            self.at.operator = step.spec.name
            self._half_open = step
            step.open()
            self._half_open = None
            self._open.append(step)

    def run(self, values: list[Any], sizes: Sizes) -> Outputs:
        """Take a batch through the stage."""
        self.head.feed(values, sizes)
        collected, self._collected = self._collected, []
        return collected

    async def run_async(self, values: list[Any], sizes: Sizes, work: Work) -> Outputs:
        """Take a batch through a stage whose operator is awaited, one value after the other."""
        step = self.head
        fn = step.process if isinstance(step, Process) else step.spec.fn
        results: list[Any] = []
        failures: list[tuple[int, Any, Exception]] = []
        for value in values:
            try:
                work.awaited = fn(value)
                found = await work.awaited
                results.append(listed(found) if isinstance(step, FlatMap) else found)
            except Exception as error:  # noqa: BLE001, PERF203 - a user's function may raise anything
                failures.append((len(results), value, error))
                results.append(FAILED)
        # From here on nothing is awaited: other calls of this operator share the step.
        for failure in failures:
            step.failed(*failure)
        step.give(values, results, sizes)
        collected, self._collected = self._collected, []
        return collected

    @property
    def tick_every_s(self) -> float | None:
        """The shortest tick interval any operator asked for."""
        return min((step.tick_every_s or 0.0 for step in self._tickers), default=None)

    def tick(self, now_s: float) -> Outputs:
        """Tick every operator that asked for it."""
        given: list[tuple[Step, Sequence[Any]]] = []
        for step in self._tickers:
            self.at.operator = step.spec.name
            given.append((step, step.tick(now_s)))
        return self._emit(given)

    def close(self) -> Outputs:
        """Close all operators, upstream first, so that what one gives out last still passes the next."""
        collected: Outputs = []
        for step in [step for step in self._open if not step.outlives_input]:
            self._open.remove(step)
            self.at.operator = step.spec.name
            collected += self._emit([(step, step.close())])
        return collected

    def release(self) -> list[tuple[str, Exception]]:
        """Close what is still open, where nobody takes what it gives any more; tells whose ``close()`` failed.

        One that fails does not keep the others from being closed. Of one whose ``open()`` failed nothing is told: that
        it cannot be closed either is no news.
        """
        failed: list[tuple[str, Exception]] = []
        if self._half_open is not None:
            with contextlib.suppress(Exception):
                self._half_open.release()
            self._half_open = None
        while self._open:
            step = self._open.pop(0)
            self.at.operator = step.spec.name
            try:
                step.release()
            except Exception as error:  # noqa: BLE001 - a user's close() may raise anything
                failed.append((step.spec.name, error))
        return failed

    def prepare(self, epoch: int) -> list[Callable[[], object]]:
        """What sinks have taken in belongs to this epoch; gives what makes it durable."""
        found: list[Callable[[], object]] = []
        for step in self.transactional:
            self.at.operator = step.spec.name
            make_durable = step.sink.prepare(epoch)
            if make_durable is not None:
                found.append(make_durable)
        return found

    def commit(self, epochs: list[int]) -> None:
        """Let sinks publish epochs that are durable."""
        for step in self.transactional:
            self.at.operator = step.spec.name
            for epoch in epochs:
                step.sink.commit(epoch)

    def abort(self, epoch: int) -> None:
        """Let sinks forget what an earlier execution has left of this epoch and later ones."""
        for step in self.transactional:
            self.at.operator = step.spec.name
            step.sink.abort(epoch)

    def _emit(self, given: list[tuple[Step, Sequence[Any]]]) -> Outputs:
        for step, values in given:
            if values:
                step.out("out", list(values), [len(values)])
        collected, self._collected = self._collected, []
        return collected

    @property
    def skipped(self) -> int:
        """Values that failed and were left out, over all operators."""
        return sum(step.skipped - step.dead_letters for step in self.steps.values())

    @property
    def dead_letters(self) -> int:
        """Values that all operators could not process and gave on as dead letters."""
        return sum(step.dead_letters for step in self.steps.values())
