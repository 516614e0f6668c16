"""What a query that ran in process gave: the values of its sinks, its progress and what was counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailrace.errors import nearest

from .errors import UnknownSinkError

if TYPE_CHECKING:
    from tailrace.protocol import LogLine


@dataclass(frozen=True)
class Result:
    """A finished run.

    ``collected`` has the values of every sink that sends to the driver (``collect``, ``TestSink``; ``console`` as
    text), in order of arrival. ``progress`` lists the progress reports, the last one written at the end; ``counters``
    sums that one up. ``logs`` are the lines that operators logged.
    """

    collected: dict[str, list[Any]]
    progress: list[dict[str, Any]]
    counters: dict[str, int]
    logs: list[LogLine]

    def values(self, sink_name: str | None = None) -> list[Any]:
        """The values that arrived at a sink; its name may be left out where there is one sink only."""
        if sink_name is None and len(self.collected) == 1:
            return next(iter(self.collected.values()))
        if sink_name not in self.collected:
            raise UnknownSinkError(
                f"The topology has the sinks {', '.join(map(repr, self.collected))}; found {sink_name!r} asked for.",
                nearest(str(sink_name), self.collected),
            )
        return self.collected[sink_name]
