"""Getting a topology ready to travel, and telling precisely what keeps it from travelling.

``validate`` and the start of a query call ``ship``. When pickling fails, the search below opens functions and objects
layer by layer until it holds the innermost thing that cannot be sent, and names the way to it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Mapping
from types import CellType, CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle

from .callables import function_name
from .errors import NotShippableError

if TYPE_CHECKING:
    from .graph import Topology
    from .operators import OperatorSpec

DEPTH_MAX = 50
ITEMS_MAX = 1_000
REASON_CHARS_MAX = 200


def ship(topology: Topology) -> bytes:
    """Encode a topology for the workers, or raise NotShippableError."""
    try:
        return bytes(cloudpickle.dumps(topology))
    except Exception as error:  # a user's __reduce__ may raise anything
        for spec in topology.operators.values():
            _check_operator(topology, spec)
        raise NotShippableError(
            f"Topology {topology.name!r} cannot be sent to the workers: {_reason(error)}.",
            "Keep everything but operators out of the Topology object.",
        ) from error


def _check_operator(topology: Topology, spec: OperatorSpec) -> None:
    groupings = [edge.grouping.fn for edge in topology.edges if edge.dst == spec.name]
    for part in (spec.fn, spec.key, *groupings):
        error = _failure(part)
        if error is not None:
            way = _innermost(part)
            raise NotShippableError(_sentence(spec, part, way), _hint(way[-1].value if way else part)) from error


class _Step(NamedTuple):
    """One step inwards: what leads there ("variable 'conn'"), whose it is, and what is found."""

    name: str
    owner: str
    value: Any


def _failure(thing: object) -> Exception | None:
    try:
        cloudpickle.dumps(thing)
    except Exception as error:  # noqa: BLE001 - a user's __reduce__ may raise anything
        return error
    return None


def _innermost(thing: object) -> list[_Step]:
    """Walk inwards along things that cannot be sent, until none of the parts is to blame."""
    way: list[_Step] = []
    seen = {id(thing)}
    while len(way) < DEPTH_MAX:
        for step in _parts(thing):
            if id(step.value) not in seen and _failure(step.value) is not None:
                break
        else:
            return way
        way.append(step)
        thing = step.value
        seen.add(id(thing))
    return way


def _parts(thing: Any) -> Iterator[_Step]:
    """List what pickling a thing would have to take along."""
    if isinstance(thing, FunctionType):
        yield from _function_parts(thing)
    elif isinstance(thing, functools.partial):
        owner = f"partial of {function_name(thing)!r}"
        yield _Step("function", owner, thing.func)
        yield from (_Step(f"argument {index}", owner, value) for index, value in enumerate(thing.args))
        yield from (_Step(f"argument {name!r}", owner, value) for name, value in thing.keywords.items())
    elif inspect.ismethod(thing):
        yield _Step("object", f"method {function_name(thing)!r}", thing.__self__)
        yield _Step("function", f"method {function_name(thing)!r}", thing.__func__)
    elif isinstance(thing, Mapping):
        for key, value in list(thing.items())[:ITEMS_MAX]:
            yield _Step(f"key {key!r}", type(thing).__name__, key)
            yield _Step(f"entry {key!r}", type(thing).__name__, value)
    elif isinstance(thing, list | tuple | set | frozenset):
        owner = type(thing).__name__
        yield from (_Step(f"item {index}", owner, value) for index, value in enumerate(list(thing)[:ITEMS_MAX]))
    elif isinstance(thing, type):
        yield from _class_parts(thing)
    else:
        yield from _object_parts(thing)


def _function_parts(fn: FunctionType) -> Iterator[_Step]:
    owner = f"function {fn.__name__!r}"
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        if cell != CellType():  # one that is not filled yet
            yield _Step(f"variable {name!r}", owner, cell.cell_contents)
    for name in sorted(_global_names(fn.__code__)):
        if name in fn.__globals__:
            yield _Step(f"global variable {name!r}", owner, fn.__globals__[name])
    for name, parameter in inspect.signature(fn).parameters.items():
        if parameter.default is not parameter.empty:
            yield _Step(f"default of {name!r}", owner, parameter.default)
    yield from (_Step(f"attribute {name!r}", owner, value) for name, value in vars(fn).items())


def _global_names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _global_names(constant)
    return names


def _class_parts(cls: type) -> Iterator[_Step]:
    owner = f"class {cls.__name__!r}"
    for name, value in vars(cls).items():
        if isinstance(value, staticmethod | classmethod):
            yield _Step(f"attribute {name!r}", owner, value.__func__)
        elif isinstance(value, property):
            yield _Step(f"attribute {name!r}", owner, value.fget)
        elif not isinstance(value, GetSetDescriptorType | MemberDescriptorType):  # Python makes those again
            yield _Step(f"attribute {name!r}", owner, value)
    yield from (_Step("base class", owner, base) for base in cls.__bases__)


def _object_parts(thing: Any) -> Iterator[_Step]:
    owner = f"{type(thing).__name__} object"
    yield from (_Step(f"attribute {name!r}", owner, value) for name, value in getattr(thing, "__dict__", {}).items())
    for cls in type(thing).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in {"__dict__", "__weakref__"} and hasattr(thing, name):
                yield _Step(f"attribute {name!r}", owner, getattr(thing, name))
    yield _Step("class", owner, type(thing))


def _sentence(spec: OperatorSpec, part: object, way: list[_Step]) -> str:
    culprit = way[-1].value if way else part
    reason = f"a {type(culprit).__module__}.{type(culprit).__qualname__}, which cannot be sent to another process"
    if not way:
        return f"Operator {spec.name!r} ({spec.verb}) is {reason} ({_reason(_failure(culprit))})."
    last = way[-1]
    path = " -> ".join([function_name(part), *(step.name for step in way)])
    where = f"{last.name} of {last.owner}"
    return f"Operator {spec.name!r} ({spec.verb}) takes along {where}: {reason} ({_reason(_failure(culprit))}; {path})."


def _reason(error: Exception | None) -> str:
    return " ".join(str(error).split())[:REASON_CHARS_MAX].rstrip(".")


def _hint(culprit: object) -> str:
    if type(culprit).__module__.startswith("pyspark"):
        return "Spark's own objects live on the driver only: collect what is needed first, or read it with a source."
    return "Make it where it is used: inside the function, or in open() of a class derived from tr.Operator."
