"""``tr.lookup``: a static DataFrame as a dict that operators read, the same in every worker, refreshed if asked for.

The driver collects it; it travels with the functions that hold it. A refresh goes to all workers as a message, and a
worker that starts later gets the newest rows with its program. Every process keeps one table per lookup.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from typing import TYPE_CHECKING, Any

from .errors import LookupTableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS_MAX = 100_000

#: The tables of this process: version and rows by key.
_tables: dict[str, tuple[int, dict[Any, Any]]] = {}
_noticed = threading.local()


def install(name: str, version: int, table: dict[Any, Any]) -> None:
    """Keep a table if it is newer than the one that is here."""
    if version >= _tables.get(name, (-1, {}))[0]:
        _tables[name] = version, table


def held() -> frozenset[str]:
    """The tables of this process, by name."""
    return frozenset(_tables)


def release(besides: frozenset[str]) -> None:
    """Let go of all tables but these: at the end of a worker, of those that came with its query."""
    for name in _tables.keys() - besides:
        _tables.pop(name, None)


@contextlib.contextmanager
def noticing() -> Iterator[list[Lookup]]:
    """List the lookups that are being shipped meanwhile: they hide in the functions that use them."""
    found: list[Lookup] = []
    _noticed.found = found
    try:
        yield found
    finally:
        del _noticed.found


class Lookup:
    """A table by key. Operators use it like a dict: ``get``, ``[]``, ``in``, ``len``."""

    def __init__(
        self, df: Any, key: str | tuple[str, ...], value: str | None, refresh_s: float | None, rows_max: int
    ) -> None:
        self.df = df
        self.keys = (key,) if isinstance(key, str) else tuple(key)
        self.value = value
        self.refresh_s = refresh_s
        self.rows_max = rows_max
        self.name = uuid.uuid4().hex
        self.version = -1

    def __reduce__(self) -> tuple[Callable[..., Arrived], tuple[str, int, dict[Any, Any]]]:
        """Travel as the rows of now."""
        if self.version < 0:
            self.refresh()
        found = getattr(_noticed, "found", None)
        if found is not None and self not in found:
            found.append(self)
        return _arrived, (self.name, *_tables[self.name])

    def refresh(self) -> None:
        """Collect the rows again, at the driver."""
        df = self.df() if callable(self.df) else self.df
        rows = df.limit(self.rows_max + 1).collect()
        if len(rows) > self.rows_max:
            raise LookupTableError(
                f"A lookup table holds up to {self.rows_max:,} rows, and the DataFrame has more.",
                "Select fewer, join in Spark before the topology, or raise rows_max.",
            )
        table = _by_key(rows, self.keys, self.value)
        self.version += 1
        install(self.name, self.version, table)

    @property
    def table(self) -> dict[Any, Any]:
        """The rows by key, as this process has them."""
        if self.version < 0:
            self.refresh()
        return _tables[self.name][1]

    def get(self, key: Any, default: Any = None) -> Any:
        """The row of a key, or the default."""
        return self.table.get(key, default)

    def __getitem__(self, key: Any) -> Any:
        return self.table[key]

    def __contains__(self, key: object) -> bool:
        return key in self.table

    def __len__(self) -> int:
        return len(self.table)


class Arrived:
    """A lookup in a worker."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __reduce__(self) -> tuple[Callable[..., Arrived], tuple[str, int, dict[Any, Any]]]:
        return _arrived, (self._name, *_tables[self._name])

    def get(self, key: Any, default: Any = None) -> Any:
        """The row of a key, or the default."""
        return _tables[self._name][1].get(key, default)

    def __getitem__(self, key: Any) -> Any:
        return _tables[self._name][1][key]

    def __contains__(self, key: object) -> bool:
        return key in _tables[self._name][1]

    def __len__(self) -> int:
        return len(_tables[self._name][1])


def _arrived(name: str, version: int, table: dict[Any, Any]) -> Arrived:
    install(name, version, table)
    return Arrived(name)


def _by_key(rows: list[Any], keys: tuple[str, ...], value: str | None) -> dict[Any, Any]:
    table: dict[Any, Any] = {}
    for row in rows:
        fields = row.asDict(recursive=True)
        parts = tuple(fields[name] for name in keys)
        key = parts[0] if len(parts) == 1 else parts
        if None in parts:
            raise LookupTableError(
                f"A key of a lookup table must not be null: {fields!r:.120}.", "Filter such rows out."
            )
        if key in table:
            raise LookupTableError(
                f"Keys of a lookup table must differ, and {key!r:.80} comes twice.", "Drop duplicates, or aggregate."
            )
        table[key] = fields[value] if value is not None else fields
    return table


def make_lookup(
    df: Any, key: str | tuple[str, ...], *, value: str | None, refresh_s: float | None, rows_max: int
) -> Lookup:
    """Check what a lookup is made of and make it."""
    found = df() if callable(df) else df
    if not hasattr(found, "isStreaming"):
        raise LookupTableError(
            f"A lookup table comes of a Spark DataFrame, found {type(found).__name__}.",
            "Give spark.read... or a function that makes a DataFrame.",
        )
    if found.isStreaming:
        raise LookupTableError("A lookup table comes of a static DataFrame, found a streaming one.", "Use spark.read.")
    names = [key] if isinstance(key, str) else list(key)
    for name in [*names, *([value] if value is not None else [])]:
        if name not in found.columns:
            raise LookupTableError(
                f"The lookup's DataFrame has no column {name!r}; it has {', '.join(found.columns)}.",
                "Select or rename columns.",
            )
    if refresh_s is not None and (isinstance(refresh_s, bool) or not refresh_s > 0):
        raise LookupTableError(f"refresh_s must be a positive number of seconds, found {refresh_s!r}.", "Leave it out.")
    return Lookup(df, key, value, refresh_s, rows_max)
