"""The sources a user names: ``tr.sources.lines(...)`` and so on. A call only notes settings; workers do the reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from .arrow import need_arrow
from .items import Items
from .lines import Lines
from .rate import Rate
from .tcp import TcpLines

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

    from tailrace.topology.contracts import Source

__all__ = ["dataframe", "items", "lines", "rate", "socket"]

T = TypeVar("T")


def lines(
    path: str | os.PathLike[str],
    *,
    follow: bool = False,
    encoding: str = "utf-8",
    errors: str = "strict",
    splits: int | None = None,
) -> Source[str]:
    """Read the lines of a file, or of all files that match a pattern (``*``, ``?``, ``[...]``, ``**``).

    With ``follow=True`` the files are watched for lines added to them and the source never ends; files that come later
    are not found. Files of more than 64 MiB are read in several partitions; ``splits`` sets how many per file.
    ``errors`` is as in ``open``: bytes that are no text are an error (``strict``, see the source's ``on_error``),
    become U+FFFD (``replace``) or are left out (``ignore``).
    """
    return Lines(path, follow=follow, encoding=encoding, errors=errors, splits=splits)


@overload
def rate(per_s: float, make: None = None, *, count: int | None = None, partitions: int = 1) -> Source[int]: ...
@overload
def rate(per_s: float, make: Callable[[int], T], *, count: int | None = None, partitions: int = 1) -> Source[T]: ...
@overload
def rate(
    per_s: float, make: None = None, *, values: Sequence[T], count: int | None = None, partitions: int = 1
) -> Source[T]: ...
def rate(
    per_s: float,
    make: Callable[[int], T] | None = None,
    *,
    values: Sequence[T] | None = None,
    count: int | None = None,
    partitions: int = 1,
) -> Source[T] | Source[int]:
    """Make ``per_s`` records a second in all, spread over the partitions, ``count`` of them or for ever.

    Record i is ``make(i)``, or ``values[i % len(values)]``, or just i. Each is due at its own time, and complete
    latency is measured from then. ``per_s=math.inf`` makes them as fast as they are taken.
    """
    return Rate(per_s, make, values, count, partitions)


def items(values: Iterable[T], *, partitions: int = 1) -> Source[T]:
    """Read values from memory, dealt out over the partitions."""
    return Items(values, partitions)


def dataframe(
    df: Any, form: Any = "dict", *, checkpoint: str | os.PathLike[str] | None = None, **trigger: Any
) -> Source[Any]:
    """Read the rows of a Spark DataFrame, bounded or streaming; its tasks need a free slot beside the workers.

    Rows arrive as ``form`` says: ``"dict"``, ``"value"`` (of one column), ``"arrow"`` (record batches, each tracked
    as one), or a dataclass or msgspec Struct. For a streaming DataFrame ``checkpoint`` is the folder of Structured
    Streaming's own checkpoint, and ``trigger`` is passed to its trigger, for example ``processingTime="1 second"``.
    """
    need_arrow()
    from .dataframe import DataFrameSource  # noqa: PLC0415 - only with pyarrow

    return DataFrameSource(df, form, checkpoint, trigger)


def socket(host: str, port: int, *, encoding: str = "utf-8", errors: str = "strict") -> Source[str]:
    """Read lines from a TCP server until it closes. Not replayable: a worker's death loses what it had read."""
    return TcpLines(host, port, encoding=encoding, errors=errors)
