"""The rules with nothing to decide: all (every task), global (the first task), direct (the sender says) and custom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.errors import TailraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tailrace.batch import Batch


class RouteError(TailraceError):
    """A direct or custom grouping named a task that does not exist."""


class All:
    """Every value to every task."""

    several = True
    unwraps = False

    def __init__(self, tasks: int) -> None:
        self._everyone = tuple(range(tasks))

    def choose(self, values: list[Any], origin: Batch) -> list[tuple[int, ...]]:
        """Name every task for each value."""
        del origin
        return [self._everyone] * len(values)


class DirectRule:
    """Where the sender said; values are ``tr.direct(task, value)`` and are unwrapped here."""

    several = False
    unwraps = True

    def __init__(self, edge: str, tasks: int) -> None:
        self._edge = edge
        self._tasks = tasks

    def choose(self, values: list[Any], origin: Batch) -> list[int]:
        """Read the task off each value and leave the bare values in place."""
        del origin
        for value in values:
            task = getattr(value, "task", None)
            if not isinstance(task, int) or not 0 <= task < self._tasks:
                raise RouteError(
                    f"The direct grouping {self._edge} expects tr.direct(task, value) with a task from 0 to "
                    f"{self._tasks - 1}; found {value!r:.100}.",
                    "Emit tr.direct(...) from the operator in front of it.",
                )
        dests = [value.task for value in values]
        values[:] = [value.value for value in values]
        return dests


class Custom:
    """Where the user's function says; it may name several tasks."""

    several = True
    unwraps = False

    def __init__(self, edge: str, fn: Callable[[Any, int], int | Iterable[int]], tasks: int) -> None:
        self._edge = edge
        self._fn = fn
        self._tasks = tasks

    def choose(self, values: list[Any], origin: Batch) -> list[tuple[int, ...]]:
        """Ask the function for each value."""
        del origin
        return [self._checked(value) for value in values]

    def _checked(self, value: Any) -> tuple[int, ...]:
        found = self._fn(value, self._tasks)
        dests = (found,) if isinstance(found, int) else tuple(found)
        if any(not 0 <= dest < self._tasks for dest in dests):
            raise RouteError(
                f"The grouping function of {self._edge} must give task indexes from 0 to {self._tasks - 1}; "
                f"found {found!r:.100} for {value!r:.100}.",
                "Take the index modulo the number of tasks, which is the function's second argument.",
            )
        return dests
