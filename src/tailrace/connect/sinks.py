"""The sinks a user names: ``tr.sinks.console()`` and so on; those too small for a file of their own live here.

Tasks write far away from the user's terminal, so console and collect hand their values to the driver, where the
runtime gives them to ``Sink.receive`` of the very object the user made.
"""

from __future__ import annotations

import collections
import sys
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tailrace.topology.contracts import Sink

from ..errors import ShareError
from ..topology.callables import check_function, function_name
from .arrow import need_arrow
from .errors import CollectLimitError, ConnectorOptionError
from .json_lines import JsonLines

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from ..topology.contracts import Delivery
    from ..topology.operators import TaskContext

__all__ = ["Collect", "collect", "console", "discard", "function", "json_lines", "parquet", "table"]

T = TypeVar("T")


def console(limit: int | None = None) -> Sink:
    """Print values at the driver, the first ``limit`` of them or all."""
    return Console(limit)


def collect(limit: int = 1_000_000) -> Collect[Any]:
    """Bring values to the driver: keep the sink in a variable and read its ``values``; over ``limit`` is an error."""
    return Collect(limit)


def json_lines(
    folder: str | os.PathLike[str],
    *,
    mode: str = "error",
    default: Callable[[Any], Any] | None = None,
    delivery: str | None = None,
) -> Sink:
    """Write values to files ``part-*.jsonl`` in a folder, on the nodes where tasks run.

    With a checkpoint there is a file per task and epoch, and each value is in them exactly once: ``delivery`` is
    ``"exactly_once"`` then, and what was not published yet lies under names that begin with ``_``. ``"at_least_once"``,
    the default without a checkpoint, writes a file per task at once.

    ``mode`` says what is done with such files of an earlier query: ``"error"`` refuses to start, ``"overwrite"``
    removes them, ``"append"`` adds to them. ``default`` turns values that JSON has no form for into some it has, for
    example ``str``.
    """
    return JsonLines(folder, default, mode, delivery)


def parquet(folder: str | os.PathLike[str], schema: Any, *, mode: str = "error") -> Sink:
    """Write rows to files ``part-*.parquet`` in a folder, on the nodes where tasks run.

    ``schema`` is Spark's DDL, a StructType, an Arrow schema, or a dataclass or msgspec Struct. With a checkpoint there
    is a file per task and epoch, and each row is in them exactly once; without one a file appears when it is full
    (256 MiB) or the input has ended. What has not appeared yet lies under names that begin with ``_``. ``mode`` is that
    of ``json_lines``.
    """
    need_arrow()
    from .parquet import ParquetFiles  # noqa: PLC0415 - only with pyarrow

    return ParquetFiles(folder, schema, mode)


def function(fn: Callable[[Any], object]) -> Sink:
    """Call a function with each value, in the worker."""
    return Function(fn)


def table(folder: str | os.PathLike[str], schema: Any, *, stream: str = "out", commit_s: float = 0.5) -> Sink:
    """Write rows for ``spark.read`` and ``spark.readStream.format("tailrace").option("query", folder)``.

    ``schema`` is Spark's DDL, a StructType, an Arrow schema, or a dataclass or msgspec Struct; rows that do not fit it
    end the query, or are dead letters under ``on_error="dead_letter"``. The driver, the workers and Spark's tasks must
    all see the folder. Rows count with every batch of a streaming DataFrame, at the end of bounded ones, and else every
    ``commit_s`` seconds.
    """
    need_arrow()
    from .table import Table  # noqa: PLC0415 - only with pyarrow

    return Table(folder, schema, stream=stream, commit_s=commit_s)


def discard() -> Sink:
    """Throw values away, on purpose."""
    return Discard()


def _check_limit(limit: object) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ConnectorOptionError(
            f"limit must be a whole number above 0, found {limit!r}.", "Leave it out for the default."
        )


class _ToDriver(Sink):
    """Hands batches to the driver."""

    _ctx: TaskContext | None = None

    def open(self, ctx: TaskContext) -> None:
        """Remember the way to the driver."""
        self._ctx = ctx

    def _send(self, values: list[Any]) -> None:
        """Send values, in halves where all of them together are too long for one message."""
        if self._ctx is None or not values:
            return
        try:
            self._ctx.emit_to_driver(values)
        except ShareError:
            if len(values) == 1:
                raise
            half = len(values) // 2
            self._send(values[:half])
            self._send(values[half:])


class Console(_ToDriver):
    """See ``console``."""

    label = "console"

    def __init__(self, limit: int | None) -> None:
        if limit is not None:
            _check_limit(limit)
        self.limit = limit
        self._left = limit

    def _up_to_limit(self, values: list[Any]) -> list[Any]:
        if self._left is None:
            return values
        values = values[: self._left]
        self._left -= len(values)
        return values

    def write(self, values: list[Any]) -> None:
        """Send the values as text, so that what cannot travel can still be shown."""
        self._send(list(map(str, self._up_to_limit(values))))

    def begin(self) -> None:
        """Count up to the limit again."""
        self._left = self.limit

    def receive(self, values: list[Any]) -> None:
        """Print."""
        shown = self._up_to_limit(values)
        if shown:
            sys.stdout.write("\n".join(shown) + "\n")
            sys.stdout.flush()


class Collect(_ToDriver, Generic[T]):
    """See ``collect``. ``values`` grows on the driver while the query runs, in the order batches arrive."""

    label = "collect"
    remembered = True

    def delivery(self, *, durable: bool) -> Delivery:
        """With a checkpoint each value once, whatever is lost; in ``values`` as soon as it comes."""
        return "transactional" if durable else "at_least_once"

    def __init__(self, limit: int) -> None:
        _check_limit(limit)
        self.limit = limit
        self.values: list[T] = []
        #: Task, number and count of values of each message, in the order of ``values``.
        self._messages: list[tuple[int, int, int]] = []

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what an earlier query brought: tasks have no use for it."""
        return {**self.__dict__, "values": [], "_messages": []}

    def write(self, values: list[Any]) -> None:
        """Send the values."""
        self._send(values)

    def begin(self) -> None:
        """Let go of an earlier query's values; a list that was taken from here stays as it is."""
        self.values = []
        self._messages = []

    def receive_from(self, task: int, number: int, values: Any) -> None:
        """Keep the values, and where they came from."""
        self.receive(values)
        self._messages.append((task, number, len(values)))

    def rewind(self, numbers: dict[int, int]) -> None:
        """Forget what comes again."""
        kept: list[T] = []
        messages, at = [], 0
        for task, number, count in self._messages:
            if number < numbers.get(task, 0):
                kept += self.values[at : at + count]
                messages.append((task, number, count))
            at += count
        self.values, self._messages = kept, messages

    def receive(self, values: list[Any]) -> None:
        """Keep the values."""
        if len(self.values) + len(values) > self.limit:
            raise CollectLimitError(
                f"collect holds up to {self.limit:,} values at the driver, and more have come.",
                "Give collect(limit=...) a higher one, or write large results with json_lines.",
            )
        self.values.extend(values)


class Function(Sink):
    """See ``function``."""

    label = "function"

    def __init__(self, fn: Callable[[Any], object]) -> None:
        check_function("function", "sink", fn, ("value",), may_await=False)
        self.fn = fn
        if function_name(fn).isidentifier():
            self.label = function_name(fn)

    def write(self, values: list[Any]) -> None:
        """Call the function with each value."""
        collections.deque(map(self.fn, values), maxlen=0)


class Discard(Sink):
    """See ``discard``."""

    label = "discard"
    idempotent = True

    def write(self, values: list[Any]) -> None:
        """Do nothing."""
