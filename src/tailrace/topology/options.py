"""The keyword options of operators, one class per family, so that editors complete them and mypy checks them.

``streams`` and ``graph`` take them; their defaults are those of ``OperatorSpec``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from .operators import Emit, ErrorPolicy


class SourceOptions(TypedDict, total=False):
    """Options of a source: its name, its number of tasks, whether a replay reads equal values again.

    ``on_error`` (fail, skip or dead_letter) is for single records that cannot be read.
    """

    name: str | None
    tasks: int | None
    deterministic: bool
    on_error: ErrorPolicy


class KeyedOptions(SourceOptions, total=False):
    """Options of operators that always run inline."""


class UpdateOptions(KeyedOptions, total=False):
    """Options of count, reduce and aggregate; ``emit`` is update (with every value) or final (once, at the end)."""

    emit: Emit


class SinkOptions(KeyedOptions, total=False):
    """Options of operators that may wait; ``blocking`` gives each task a thread of its own from the start."""

    blocking: bool


class CallOptions(SinkOptions, total=False):
    """Options of operators that may be ``async def``; ``concurrency`` is how many calls may be open at once."""

    concurrency: int
