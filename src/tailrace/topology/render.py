"""Pictures of a topology: a tree for the terminal and a Mermaid flowchart for documents. Pure text out of pure data.

``str(topology)`` and ``Topology.mermaid`` call this. Half-drawn and wrong topologies are drawn too, so that a
mistake can be seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .counts import known_edges, task_counts
from .operators import PORT_OUT

if TYPE_CHECKING:
    from .graph import Topology
    from .operators import EdgeSpec, OperatorSpec


def tree(topology: Topology) -> str:
    """Draw a tree from the sources down; what is reached a second time is referred to."""
    counts = task_counts(topology)
    edges = known_edges(topology)
    roots = _roots(topology, edges)
    rows = [topology.name]
    shown: set[str] = set()
    # Each entry: operator, the edge that led to it, the margin in front, whether it is its parent's last child.
    stack: list[tuple[str, EdgeSpec | None, str, bool]] = [
        (name, None, "", name == roots[-1]) for name in reversed(roots)
    ]
    while stack:
        name, edge, margin, last = stack.pop()
        arrow = f" <- {_edge_label(edge, counts)}" if edge else ""
        port = f"[{edge.port}] " if edge and edge.port != PORT_OUT else ""
        again = name in shown
        text = f"{name} (see above)" if again else f"{name} ({_operator_label(topology.operators[name], counts)})"
        rows.append(f"{margin}{'└─' if last else '├─'} {port}{text}{arrow}")
        if again:
            continue
        shown.add(name)
        outward = [out for out in edges if out.src == name]
        inner = margin + ("   " if last else "│  ")
        stack.extend((out.dst, out, inner, out is outward[-1]) for out in reversed(outward))
    return "\n".join(rows)


def mermaid(topology: Topology) -> str:
    """Draw a flowchart: sources round, sinks as stores, dead letters dotted."""
    counts = task_counts(topology)
    ids = {name: f"n{number}" for number, name in enumerate(topology.operators)}
    rows = ["flowchart LR"]
    for name, spec in topology.operators.items():
        left, right = {"source": ('(["', '"])'), "sink": ('[("', '")]')}.get(spec.kind, ('["', '"]'))
        rows.append(f"    {ids[name]}{left}{_escaped(name)}<br/>{_operator_label(spec, counts)}{right}")
    for edge in known_edges(topology):
        label = _edge_label(edge, counts)
        label = label if edge.port == PORT_OUT else f"{edge.port}: {label}"
        arrow = "-.->" if edge.port == "dead" else "-->"
        rows.append(f'    {ids[edge.src]} {arrow}|"{_escaped(label)}"| {ids[edge.dst]}')
    return "\n".join(rows)


def _roots(topology: Topology, edges: list[EdgeSpec]) -> list[str]:
    """Choose where to begin so that everything is drawn: at what nothing feeds, then anywhere on a cycle left over."""
    fed = {edge.dst for edge in edges}
    roots: list[str] = []
    reached: set[str] = set()
    for name in sorted(topology.operators, key=fed.__contains__):
        if name in reached:
            continue
        roots.append(name)
        frontier = [name]
        while frontier:
            here = frontier.pop()
            if here not in reached:
                reached.add(here)
                frontier.extend(edge.dst for edge in edges if edge.src == here)
    return roots


def _operator_label(spec: OperatorSpec, counts: dict[str, int]) -> str:
    tasks = counts.get(spec.name, spec.tasks)
    extra = "" if spec.on_error == "fail" else f", on error {spec.on_error}"
    extra += "" if spec.emit == "update" else f", emit {spec.emit}"
    return f"{spec.verb}, {tasks or '?'} {'task' if tasks == 1 else 'tasks'}{extra}"


def _edge_label(edge: EdgeSpec, counts: dict[str, int]) -> str:
    if edge.grouping.kind == "auto" and counts.get(edge.src) != counts.get(edge.dst):
        return "shuffle"
    return str(edge.grouping)


def _escaped(text: str) -> str:
    """Write a text so that Mermaid shows it and does not read it."""
    return "".join(f"#{ord(char)};" if char in '"#<>&|`\\' else char for char in text)
