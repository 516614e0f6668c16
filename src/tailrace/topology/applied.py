"""``flow.input()`` and ``stream.output()``: the two ends of a topology that ``flow.apply(df)`` puts a DataFrame to.

They hold what the user said of them and stand in for a source and a sink until the topology is applied; started on its
own, a topology with such an end says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.topology.contracts import Reader, Sink, Source

from .errors import PlaceholderError

if TYPE_CHECKING:
    from ..clock import Clock


class Input(Source[Any]):
    """Where the rows of the DataFrame will come in."""

    label = "input"

    def __init__(self, form: Any) -> None:
        self.form = form

    def partitions(self) -> list[str]:
        """There are none yet."""
        raise PlaceholderError(
            "flow.input() stands for a DataFrame, and this topology was started without one.",
            "Call flow.apply(df), or begin with flow.source(...).",
        )

    def open(self, partition: str, offset: int, clock: Clock) -> Reader:
        """There is nothing to open."""
        raise NotImplementedError


class Output(Sink):
    """Where the rows of the resulting DataFrame will go out."""

    label = "output"

    def __init__(self, schema: Any) -> None:
        self.schema = schema

    def preflight(self) -> None:
        """There is nowhere to write to yet."""
        self.begin()

    def begin(self) -> None:
        """There is nowhere to write to yet."""
        raise PlaceholderError(
            ".output() stands for a resulting DataFrame, and this topology was started on its own.",
            "Call flow.apply(df), or end with .sink(...).",
        )

    def write(self, values: list[Any]) -> None:
        """There is nowhere to write to."""
        raise NotImplementedError
