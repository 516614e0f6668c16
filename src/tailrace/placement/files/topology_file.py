"""Reads topology files (JSON: operators, streams, rates) as task graphs; the schema is in docs/placement.md.

``tailrace place`` and the bench call ``read_graph``, which takes METIS graphs too and tells the two by the file's name.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tailrace.errors import nearest

from ..errors import TopologyFileError
from ..model import OperatorEdge
from ..traffic import TUPLE_BYTES_DEFAULT, OperatorProfile, expand
from .metis_file import read_metis

if TYPE_CHECKING:
    from pathlib import Path

    from ..model import TaskGraph

METIS_SUFFIXES = {".graph", ".mgraph", ".metis"}
_TOP = {"name", "operators", "edges", "input_rate_tps", "tuple_bytes"}
# Written by other tools or for people; read by nobody here.
_TOP_IGNORED = {"source", "notes", "input_rate_per_operator", "task_graph"}
_OPERATOR = {"id", "kind", "parallelism", "selectivity", "cost", "tuple_bytes", "input_rate_tps", "cpu_points_per_task"}
_EDGE = {"src", "dst", "grouping"}


def read_graph(path: Path) -> TaskGraph:
    """Read a topology file or a METIS graph, by suffix."""
    if not path.is_file():
        raise TopologyFileError(f"There is no file {path}.", "Give a topology (.json) or a METIS graph (.graph).")
    return read_metis(path) if path.suffix in METIS_SUFFIXES else read_topology(path)


def read_topology(path: Path) -> TaskGraph:
    """Read one JSON topology; unknown keys are errors that name the nearest known one."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise TopologyFileError(f"{path.name} is not JSON: {error}.", "See docs/placement.md for the schema.") from None
    return topology_from(data, path.name)


def topology_from(data: Any, where: str) -> TaskGraph:
    """Build the task graph from the parsed content; ``where`` names it in errors."""
    _keys(data, _TOP | _TOP_IGNORED, {"operators"}, where)
    streams = []
    for i, edge in enumerate(_list(data, "edges", where)):
        _keys(edge, _EDGE, {"src", "dst"}, f"{where} edges[{i}]")
        streams.append(OperatorEdge(str(edge["src"]), str(edge["dst"]), str(edge.get("grouping", "shuffle"))))
    rate = _number(data, "input_rate_tps", 1.0, where)
    size = _number(data, "tuple_bytes", TUPLE_BYTES_DEFAULT, where)
    operators = []
    for i, found in enumerate(_list(data, "operators", where)):
        at = f"{where} operators[{i}]"
        _keys(found, _OPERATOR, {"id"}, at)
        operators.append(
            OperatorProfile(
                id=str(found["id"]),
                tasks=int(_number(found, "parallelism", 1.0, at)),
                selectivity=_number(found, "selectivity", 1.0, at),
                cost=_number(found, "cost", 1.0, at),
                rate_tps=_number(found, "input_rate_tps", rate, at),
                tuple_bytes=_number(found, "tuple_bytes", size, at),
            )
        )
    return expand(str(data.get("name", where)), operators, streams)


def _keys(data: Any, known: set[str], needed: set[str], where: str) -> None:
    if not isinstance(data, dict):
        raise TopologyFileError(f"{where}: expected an object, found {type(data).__name__}.", "See docs/placement.md.")
    for key in data:
        if key not in known:
            raise TopologyFileError(f"{where}: unknown key {key!r}.", nearest(key, known))
    for key in sorted(needed - data.keys()):
        raise TopologyFileError(f"{where}: the key {key!r} is missing.", "See docs/placement.md for the schema.")


def _list(data: dict[str, Any], key: str, where: str) -> list[Any]:
    found = data.get(key, [])
    if not isinstance(found, list):
        raise TopologyFileError(f"{where}: expected a list in {key!r}, found {type(found).__name__}.", "Use [ ].")
    return found


def _number(data: dict[str, Any], key: str, default: float, where: str) -> float:
    found = data.get(key, default)
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise TopologyFileError(f"{where}: expected a number in {key!r}, found {found!r}.", "Give a plain number.")
    return float(found)
