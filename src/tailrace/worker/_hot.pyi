from typing import Any

from .filing import Columns

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
