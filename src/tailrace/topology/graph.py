"""The topology itself: operators by name and the edges between them, as plain data that can be printed and shipped.

Users start here (``tr.Topology(name).source(...)``); the streams that come back add the rest of the operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from .applied import Input
from .checks import check_options, check_spec
from .errors import PlaceholderError
from .names import check_name, derived_name, unique_name
from .operators import PORT_OUT, EdgeSpec, OperatorSpec
from .render import mermaid, tree
from .streams import KeyedStream, Origin, Stream, Sunk
from .validate import validate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Unpack

    from tailrace.topology.contracts import Source

    from .operators import Kind, Verb
    from .options import SourceOptions

__all__ = ["KeyedStream", "Stream", "Sunk", "Topology"]

T = TypeVar("T")


def _not_set(*_: Any, **__: Any) -> Any:
    raise PlaceholderError("flow.apply needs the whole package.", "Write import tailrace.")


#: Carries out ``Topology.apply``; set when the package is imported, because drawing knows nothing of Spark.
applier: Callable[..., Any] = _not_set

KINDS: dict[str, Kind] = {"source": "source", "sink": "sink"}


class Topology:
    """A graph of operators. Draw it from its sources on; nothing runs until it is started.

    >>> flow = Topology("upper")
    >>> flow.source(tr.sources.items(["a", "b"])).map(str.upper).sink(tr.sinks.console())
    """

    def __init__(self, name: str) -> None:
        check_name(name, "topology")
        self.name = name
        self.operators: dict[str, OperatorSpec] = {}
        self.edges: list[EdgeSpec] = []

    def source(self, source: Source[T], **options: Unpack[SourceOptions]) -> Stream[T]:
        """Add a source; with several tasks its partitions are shared out over them."""
        name = self.add("source", source, (), options)
        return Stream(self, (Origin(name, PORT_OUT),))

    def input(self, form: Any = "dict", **options: Unpack[SourceOptions]) -> Stream[Any]:
        """Begin where ``apply`` will put a DataFrame's rows in, in the form that ``tr.sources.dataframe`` knows."""
        return self.source(Input(form), **options)

    def apply(self, df: Any, **how: Any) -> Any:
        """Run a bounded DataFrame through this topology and give what comes out as a DataFrame.

        The topology has one ``input()`` and one ``output()``. A chain of stateless operators is carried out inside the
        Spark tasks that hold the rows; anything else runs through workers, and the call returns when they are done.
        ``inside="workers"`` or ``"tasks"`` decides that by hand; ``workers``, ``policy`` and ``settings`` are those of
        ``tr.start``, and ``folder`` is where the rows lie that workers wrote, a temporary one if not given.
        """
        return applier(self, df, **how)

    def validate(self) -> None:
        """Check that this can run, or raise a TopologyError that says what to change."""
        validate(self)

    def mermaid(self) -> str:
        """Draw the topology as a Mermaid flowchart."""
        return mermaid(self)

    def __str__(self) -> str:
        return tree(self)

    def __repr__(self) -> str:
        return f"<Topology {self.name!r}: {len(self.operators)} operators, {len(self.edges)} edges>"

    def add(
        self,
        verb: Verb,
        fn: object,
        origins: tuple[Origin, ...],
        options: Mapping[str, Any],
        *,
        key: Callable[[Any], Any] | None = None,
        ordered: bool = False,
    ) -> str:
        """Add an operator that reads the given ports and return its name; what the methods of streams call."""
        settings = dict(options)
        given = settings.pop("name", None)
        name = derived_name(verb, fn) if given is None else given
        check_name(name, "operator")
        name = unique_name(name, self.operators, renamable=given is None)
        check_options(name, verb, settings)
        if settings.get("tasks") is None and origins and all(origin.grouping.kind == "global" for origin in origins):
            settings["tasks"] = 1  # any others would never see a tuple
        spec = OperatorSpec(name, KINDS.get(verb, "transform"), verb, fn, key, ordered=ordered, **settings)
        check_spec(spec)
        self.operators[name] = spec
        self.edges.extend(EdgeSpec(origin.operator, origin.port, name, origin.grouping) for origin in origins)
        return name
