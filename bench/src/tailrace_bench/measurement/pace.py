"""Says where a bench is and how long it has yet to go: a bar on a terminal, a line per step elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TextColumn

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from rich.console import Console
    from typing_extensions import Self

_SECONDS_PER_MINUTE = 60


class Pace:
    """Counts planned seconds; the time left is what is still planned, stretched by how the plan has held so far."""

    def __init__(self, console: Console, planned_s: float, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock_s = clock_s
        self._planned_s = max(planned_s, 1e-9)
        #: Planned seconds of the steps that are over, and of the present one.
        self._passed_s = self._step_s = 0.0
        self._began_s = self._step_began_s = clock_s()
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._bar = self._progress.add_task("", total=self._planned_s, left="")

    def left_s(self) -> float:
        """Seconds to the end, as far as can be told."""
        stretch = (self._step_began_s - self._began_s) / self._passed_s if self._passed_s else 1.0
        in_step_s = min(self._step_s * stretch, self._clock_s() - self._step_began_s)
        return max(0.0, (self._planned_s - self._passed_s) * stretch - in_step_s)

    def step(self, text: str, seconds: float) -> None:
        """The next step begins, planned with so many seconds; with none it is but a word on the present one."""
        if seconds:
            self._passed_s += self._step_s
            self._step_s, self._step_began_s = seconds, self._clock_s()
        left = _minutes(self.left_s())
        self._progress.update(self._bar, completed=self._passed_s, description=text, left=left)
        if not self._console.is_terminal:
            self._console.print(f"{left:>14}  {text}", highlight=False, markup=False)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), _SECONDS_PER_MINUTE)
    return f"{minutes} min {rest:02} s left" if minutes else f"{rest} s left"
