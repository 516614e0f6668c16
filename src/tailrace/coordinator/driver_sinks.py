"""The sinks of a query on the driver, as it begins: told how, and given what an earlier driver had taken.

Called by the query, and by runs in process, before anything runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.topology.contracts import Sink
from tailrace.transport import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tailrace.checkpoint.driver_objects import DriverValue
    from tailrace.topology.contracts import SinkStart
    from tailrace.topology.plan import Plan


def remembered_sinks(plan: Plan) -> list[str]:
    """The operators whose values a driver that goes on from a checkpoint is to begin with."""
    sinks = [spec for stage in plan.stages for spec in stage.operators if spec.kind == "sink"]
    return [spec.name for spec in sinks if getattr(spec.fn, "remembered", False)]


def begin_sink(sink: Any, start: SinkStart) -> None:
    """Tell a sink that the query begins."""
    if isinstance(sink, Sink):
        sink.begin_from(start)
    else:  # anything with a sink's methods is one
        sink.begin()


def give_again(sinks: Mapping[str, Any], values: Iterable[DriverValue]) -> None:
    """Give sinks what they had taken under an earlier driver."""
    for each in values:
        sinks[each.operator].receive_from(each.task, each.number, codec.loads(each.values))
