"""Who takes part in a query besides its workers: the host that starts them, companions, and listeners.

A host is whatever starts worker processes; Spark is one. Companions feed a query from outside or refresh what it reads.
Called by ``query``; nothing here does anything by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tailrace.coordinator.query import Query
    from tailrace.program.boot import Boot


class Host(Protocol):
    """Starts worker processes and keeps them going."""

    workers: int
    #: The address of the driver that workers can reach.
    driver_host: str
    #: The address of the driver that the coordinator listens on; the same but for NAT and containers.
    bind_host: str
    #: What queries that share machines have in common, so that they are placed with regard to each other; else empty.
    session: str
    #: The Spark session whose file systems checkpoints may lie on; None where there is none.
    spark: Any

    def launch(self, boot: Boot) -> None:
        """Start all workers, without waiting for them."""
        ...

    def add(self, boot: Boot, slots: list[int]) -> None:
        """Start workers for further slots, without waiting for them."""
        ...

    def failure(self) -> Exception | None:
        """Why the host can no longer keep workers going, if so."""
        ...

    def stop(self, timeout_s: float) -> None:
        """End what is left of the workers."""
        ...

    def describe(self) -> str:
        """One line on what hosts the workers."""
        ...


class Companion(Protocol):
    """Something that lives and ends with a query: what feeds it from outside, or refreshes what it reads."""

    def running(self, query: Query) -> None:
        """The query's workers are open; called once, before ``start`` returns."""
        ...

    def attend(self, marks: dict[int, int]) -> None:
        """Several times a second: below these offsets everything is complete, and sinks have what came of it."""
        ...

    def stopping(self, *, now: bool) -> None:
        """The query is about to stop, at once or after what is open has ended; it still runs during this call."""
        ...

    def ended(self) -> None:
        """The query has ended and its workers are gone."""
        ...


class QueryListener:
    """Derive from this to be told of a query's progress and end; called in a thread of the query's own."""

    def onQueryStarted(self, query: Query) -> None:  # noqa: N802 - PySpark's name
        """The query runs."""

    def onQueryProgress(self, query: Query, progress: dict[str, Any]) -> None:  # noqa: N802 - PySpark's name
        """A new progress report is there."""

    def onQueryTerminated(self, query: Query, error: Exception | None) -> None:  # noqa: N802 - PySpark's name
        """The query has ended."""
