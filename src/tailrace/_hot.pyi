from typing import Any

from .hot import Columns, Open

def file_bundles(
    values: list[Any],
    dests: list[int],
    sizes: list[int] | None,
    roots: list[int],
    incs: list[int],
    lineages: list[int],
    columns: list[Columns],
    tags: list[int],
    piece_max: int,
    /,
) -> list[int]: ...
def file_values(values: list[Any], dests: list[int], lists: list[list[Any]], /) -> None: ...
def enter(
    opened: dict[int, Open],
    roots: list[int],
    xors: list[int],
    dues_ns: list[int],
    now_ns: int,
    inc: int,
    given: Any,
    /,
) -> list[int]: ...
def settle(
    opened: dict[int, Open], roots: list[int], incs: list[int], xors: list[int], now_ns: int, /
) -> list[int]: ...
def count_buckets(counts: dict[int, int], values: list[int], /) -> None: ...
