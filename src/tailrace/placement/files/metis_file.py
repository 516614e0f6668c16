"""Reads graphs in the METIS format (``.graph``, and ``.mgraph`` with several vertex weights) as task graphs.

The command line and the bench call it. A vertex becomes a task of the operator ``v``; its first weight is its CPU load,
its edges count as both tuples and bytes per second.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ..errors import GraphFileError
from ..model import TaskEdge, TaskGraph, TaskVertex
from ..traffic import task_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OPERATOR = "v"
_HINT = "Every line: vertex size and weights if declared, then neighbours, each with its weight if declared."
_HEADER = re.compile(r"\s*(\d+)\s+(\d+)(?:\s+([01]{1,3})(?:\s+(\d+))?)?\s*")


class _Header(NamedTuple):
    tasks: int
    edges: int
    # Numbers before the neighbours on a line, and where among them the first weight stands (-1: there is none).
    lead: int
    cpu_at: int
    edges_weighted: bool


def read_metis(path: Path) -> TaskGraph:
    """Read one file; the line of whatever is wrong with it stands in the error."""
    lines = _lines(path)
    header = _header(path, lines)
    vertices: list[TaskVertex] = []
    edges: list[TaskEdge] = []
    ends = 0
    for v in range(header.tasks):
        number, line = next(lines, (0, ""))
        if not number:
            raise GraphFileError(f"{path.name} ends after {v} of {header.tasks} vertices.", "Is the file complete?")
        cpu, near = _row(path, number, line, header)
        ends += len(near)
        task = task_id(_OPERATOR, v)
        vertices.append(TaskVertex(task, _OPERATOR, v, cpu))
        edges += [TaskEdge(task, task_id(_OPERATOR, u), rate, rate) for u, rate in near if u > v]
    if ends != 2 * header.edges:
        raise GraphFileError(
            f"{path.name} declares {header.edges} edges, so {2 * header.edges} ends; found {ends}.",
            "Every edge must stand on the lines of both its vertices.",
        )
    return TaskGraph(path.stem, tuple(vertices), tuple(edges))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield numbered lines; a comment starts with %, and after the header an empty line is a vertex without edges."""
    header_seen = False
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.startswith("%") and (header_seen or line.strip()):
                header_seen = True
                yield number, line


def _header(path: Path, lines: Iterator[tuple[int, str]]) -> _Header:
    number, line = next(lines, (1, ""))
    found = _HEADER.fullmatch(line)
    if found is None:
        raise GraphFileError(
            f"{path.name} line {number}: expected vertices, edges, a format of up to three binary digits and a number "
            f"of weights, found {line.strip()!r}.",
            "The last two may be left out.",
        )
    # The format's digits: vertex sizes, vertex weights, edge weights.
    sized, weighted, edges_weighted = (flag == "1" for flag in (found[3] or "0").zfill(3))
    weights = int(found[4] or 1) if weighted else 0
    return _Header(int(found[1]), int(found[2]), sized + weights, sized if weights else -1, edges_weighted)


def _row(path: Path, number: int, line: str, header: _Header) -> tuple[float, list[tuple[int, float]]]:
    """Load of one vertex and its neighbours, counted from 0, with their traffic."""
    try:
        row = [int(word) for word in line.split()]
    except ValueError:
        raise GraphFileError(
            f"{path.name} line {number}: expected whole numbers, found {line.strip()!r}.", _HINT
        ) from None
    near = row[header.lead :]
    others = near[::2] if header.edges_weighted else near
    rates = near[1::2] if header.edges_weighted else [1] * len(near)
    if len(row) < header.lead or len(others) != len(rates) or any(not 1 <= u <= header.tasks for u in others):
        raise GraphFileError(
            f"{path.name} line {number}: expected {header.lead} leading numbers and neighbours from 1 to "
            f"{header.tasks}, found {line.strip()!r}.",
            _HINT,
        )
    cpu = 1.0 if header.cpu_at < 0 else float(row[header.cpu_at])
    return cpu, [(u - 1, float(rate)) for u, rate in zip(others, rates, strict=True)]
