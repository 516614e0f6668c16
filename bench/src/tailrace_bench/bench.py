"""What a bench is: a name, its cases and what measures it. Each bench's own module makes one; ``registry`` has all.

Most are ``Timed``: rows that take as long as their times say, shown with the time left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from tailrace.errors import nearest

from .errors import UnknownBenchError
from .measurement.pace import Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rich.console import Console

    from .reporting.rows import Row

T = TypeVar("T")


@dataclass(frozen=True)
class BenchRequest:
    """What the user asks of a bench."""

    console: Console
    quick: bool = False
    #: The one case to run.
    only: str | None = None
    #: The folder for plots.
    plots: Path | None = None


@dataclass
class BenchOutcome:
    """What a bench gives back."""

    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    #: Of the engines it was compared with.
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Bench:
    """One bench."""

    #: As in ``tailrace bench NAME``.
    name: str
    measure: Callable[[BenchRequest], BenchOutcome]
    #: What ``--only`` may name; empty where ``measure`` looks at it by itself.
    cases: tuple[str, ...] = ()

    def run(self, request: BenchRequest) -> BenchOutcome:
        """Measure, once it is clear that the case exists."""
        if self.cases and request.only is not None and request.only not in self.cases:
            raise UnknownBenchError(f"This bench has no case {request.only!r}.", nearest(request.only, self.cases))
        return self.measure(request)


@dataclass(frozen=True)
class Timed(Generic[T]):
    """Measures rows by the times of a quick or of a full run."""

    quick: T
    full: T
    #: About how long it takes, for one case or for all.
    planned_s: Callable[[T, str | None], float]
    rows: Callable[[T, Pace, str | None], list[Row]]
    notes: Sequence[str] = ()

    def __call__(self, request: BenchRequest) -> BenchOutcome:
        """Give the rows and the notes."""
        times = self.quick if request.quick else self.full
        with Pace(request.console, self.planned_s(times, request.only)) as pace:
            return BenchOutcome(self.rows(times, pace, request.only), list(self.notes))
