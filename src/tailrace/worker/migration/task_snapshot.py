"""A task as bytes, on its way from one worker to another: state, queues, the guard's memory, offsets, counters.

``pack`` is called by the worker that lets a task go, when no piece of its work is out; ``unpack`` by the one that has
built the task again and opened it. Touches nothing but the task. Times travel as ages: two workers share no clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.batch import Batch
from tailrace.metrics.histogram import Histogram
from tailrace.receiving.inbox import Inbox
from tailrace.topology.operators import Operator
from tailrace.transport import codec
from tailrace.worker.errors import MoveError
from tailrace.worker.exchange.outlet import EmittedOutputs
from tailrace.worker.execution.steps import Process, SinkStep

if TYPE_CHECKING:
    from tailrace.worker.execution.steps import Step
    from tailrace.worker.execution.task import SourceSide, Task

Parcel = dict[str, Any]

_COUNTERS = ("tuples_in", "busy_ns", "waited_ns", "_sampled_ns", "_sampled_tuples", "_cost_ns", "_turn_values")


def pack(task: Task, now_ns: int) -> bytes:
    """Describe a task that stands still; it stays as it is, in case the move is undone."""
    parcel: Parcel = {
        "steps": {name: _step_state(task, step) for name, step in task.chain.steps.items()},
        "skipped": {name: step.skipped for name, step in task.chain.steps.items()},
        "dead_letters": {name: step.dead_letters for name, step in task.chain.steps.items()},
        "counters": {name: getattr(task, name) for name in _COUNTERS},
        "mode": task.mode,
        "closed": task.closed,
        "latencies": task.latencies.as_dict(),
        "sent": {edge: outlet.tuples for edge, outlet in task.outlets.items()},
        "boxes": {
            box.channel: (box.values, box.sizes, box.heads, box.ended, box.sent_total, box.bytes_sent)
            for box in task.boxes
        },
        "guard": task.deduplicator,
    }
    if isinstance(task.inbox, Inbox):  # tasks that take from a shared one do not move
        parcel["ended"] = [channel.id for channel in task.inbox.channels.values() if channel.ended]
        parcel["inbox"] = [
            (channel.id, batch.values, batch.sizes, batch.heads, now_ns - since_ns)
            for channel, batch, since_ns in task.inbox.waiting
        ]
    if task.source is not None:
        parcel["source"] = _source_state(task.source)
    return codec.dumps(parcel)


def _source_state(side: SourceSide) -> Parcel:
    return {
        "low": side.ledger.low_water(),
        "base_inc": side.ledger.base_inc,
        "completed": side.ledger.completed,
        "replays": side.ledger.replays,
        "read": side.read,
        "draining": side.draining,
        "latencies": side.latencies.as_dict(),
    }


def _step_state(task: Task, step: Step) -> Parcel:
    """Keyed state, and what a user's object has to say about itself."""
    found: Parcel = {}
    if (states := getattr(step, "states", None)) is not None:
        found["states"] = states
    if (owner := _users(step)) is not None:
        snapshot = getattr(owner, "snapshot", None)
        found["user"] = snapshot() if snapshot is not None else Operator.snapshot(owner)
        _check_travels(task, step, found["user"])
    return found


def _users(step: Step) -> Any:
    """The user's object behind a step that may have state of its own: an operator, or a sink that speaks of any."""
    if isinstance(step, Process) and hasattr(step.user, "process"):
        return step.user
    if isinstance(step, SinkStep) and hasattr(step.sink, "snapshot"):
        return step.sink
    return None


def _check_travels(task: Task, step: Step, state: Any) -> None:
    parts = state.items() if isinstance(state, dict) else [("snapshot()", state)]
    for name, part in parts:
        try:
            codec.dumps(part)
        except Exception as error:  # noqa: PERF203 - only to say which part it is
            raise MoveError(
                f"Task {task.index} of {step.spec.name!r} cannot move: {name!r} of its object cannot be sent to "
                f"another worker: {type(error).__name__}: {error}.",
                "Give the class snapshot() and restore(state) that leave such things out; open() makes them again.",
            ) from error


def low_water(parcel: Parcel) -> dict[int, int]:
    """Where the readers of a source begin at the new place."""
    source = parcel.get("source")
    return {} if source is None else dict(source["low"])


def unpack(task: Task, parcel: Parcel, now_ns: int) -> None:
    """Let a task that was built again go on where the other one stopped."""
    for name, step in task.chain.steps.items():
        step.skipped = parcel["skipped"][name]
        step.dead_letters = parcel["dead_letters"][name]
        state = parcel["steps"][name]
        if "states" in state:
            step.states = state["states"]  # type: ignore[attr-defined]
        if "user" in state and not parcel["closed"]:
            owner = _users(step)
            restore = getattr(owner, "restore", None)
            restore(state["user"]) if restore is not None else Operator.restore(owner, state["user"])
    for name, value in parcel["counters"].items():
        setattr(task, name, value)
    if task.mode == "inline":
        task.mode = parcel["mode"]  # it has shown that it blocks
    task.closed = task.closing = parcel["closed"]
    task.latencies = Histogram(**parcel["latencies"])
    _unpack_queues(task, parcel, now_ns)
    _unpack_guard(task, parcel)
    if task.source is not None:
        _unpack_source(task.source, parcel["source"])


def _unpack_queues(task: Task, parcel: Parcel, now_ns: int) -> None:
    for edge, tuples in parcel["sent"].items():
        task.outlets[edge].tuples = tuples
    for box in task.boxes:
        box.values, box.sizes, box.heads, box.ended, box.sent_total, box.bytes_sent = parcel["boxes"][box.channel]
    if task.inbox is None:
        return
    for number in parcel["ended"]:
        task.inbox.channels[number].ended = True
    for number, values, sizes, heads, age_ns in parcel["inbox"]:
        channel = task.inbox.channels[number]
        task.inbox.put(channel, Batch(values, sizes, heads), now_ns - age_ns)
        # It came under the counts of the old place; in those of the new one it takes no room.
        channel.received -= len(values)
        channel.stale += len(values)


def _unpack_guard(task: Task, parcel: Parcel) -> None:
    if parcel["guard"] is None:
        return
    task.deduplicator = parcel["guard"]
    for given in task.deduplicator.remembered():
        if isinstance(given, EmittedOutputs):
            given.bind(task.outlets)


def _unpack_source(side: SourceSide, source: Parcel) -> None:
    ledger = side.ledger
    # Never below what this source has used: acks of an earlier opening may still be under way.
    ledger.base_inc = max(ledger.base_inc, source["base_inc"])
    ledger.completed, ledger.replays = source["completed"], source["replays"]
    side.read, side.draining = source["read"], side.draining or source["draining"]
    side.latencies = Histogram(**source["latencies"])
