"""What rows an applied topology gives, where its user did not say: read off the types that functions declare."""

from __future__ import annotations

import collections.abc
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import pyarrow as pa

from tailrace.connect.errors import WrongSchemaError
from tailrace.connect.schemas import arrow_schema, python_type, row_fields

if TYPE_CHECKING:
    from tailrace.topology.graph import Topology

_SAME = {"filter", "branch"}
_SEVERAL = {list, tuple, set, collections.abc.Iterable, collections.abc.Iterator, collections.abc.Sequence}


def output_schema(flow: Topology, output: str, df: Any) -> pa.Schema:
    """The schema of an output: as declared, else that of the function in front of it."""
    declared = flow.operators[output].fn.schema
    if declared is not None:
        return arrow_schema(declared)
    return _of_operator(flow, _in_front(flow, output), df)


def _in_front(flow: Topology, name: str) -> str:
    return next(edge.src for edge in flow.edges if edge.dst == name)


def _of_operator(flow: Topology, name: str, df: Any) -> pa.Schema:
    spec = flow.operators[name]
    if spec.kind == "source":
        return arrow_schema(df.schema)
    if spec.verb in _SAME:
        return _of_operator(flow, _in_front(flow, name), df)
    hint = _returned(spec.fn)
    if hint is not None and spec.verb == "flat_map":
        hint = get_args(hint)[0] if get_origin(hint) in _SEVERAL and get_args(hint) else None
    if hint is None or spec.verb not in {"map", "flat_map"}:
        raise WrongSchemaError(
            f"The rows that {name!r} gives must have a schema, and its function declares no type.",
            "Write .output('id long, text string'), or annotate the function's result with a dataclass.",
        )
    if row_fields(hint) is not None:
        return arrow_schema(hint)
    return pa.schema([pa.field("value", python_type(name, hint))])


def _returned(fn: Any) -> Any:
    try:
        return get_type_hints(fn).get("return")
    except (TypeError, NameError):
        return None
