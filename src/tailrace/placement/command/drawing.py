"""Pictures of an assignment: workers and their tasks in the terminal, a traffic map between nodes, and an SVG file.

``tailrace place`` calls it. Only text is made here; the caller prints or writes it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..model import Assignment, Node, TaskEdge, TaskGraph

NODES_DRAWN_MAX = 16
_SHADES = " .:-=+*#%@"
_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb", "#222255")
# Sizes of the SVG in pixels.
_DOT, _GAP, _BOX_MIN, _MARGIN = 7, 4, 60, 70


def ranges(numbers: Iterable[int]) -> str:
    """Write task numbers short: 0-3,7."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def worker_line(graph: TaskGraph, tasks: Iterable[str]) -> str:
    """Name a worker's tasks by operator: ``split[0-3] count[7]``."""
    found: dict[str, list[int]] = {}
    for task in tasks:
        vertex = graph.vertices[graph.position[task]]
        found.setdefault(vertex.operator, []).append(vertex.index)
    return " ".join(f"{operator}[{ranges(indexes)}]" for operator, indexes in found.items())


def node_traffic(edges: Iterable[TaskEdge], nodes: Sequence[Node], assignment: Assignment) -> list[list[float]]:
    """Bytes per second from each node (row) to each node (column)."""
    index = {node.name: i for i, node in enumerate(nodes)}
    table = [[0.0] * len(nodes) for _ in nodes]
    for edge in edges:
        table[index[assignment.node_of[edge.src]]][index[assignment.node_of[edge.dst]]] += edge.bytes_per_s
    return table


def traffic_map(table: Sequence[Sequence[float]], nodes: Sequence[Node]) -> list[str]:
    """One line per node, one shade per receiving node; the darkest cell is the heaviest."""
    top = max(map(max, table), default=0.0) or 1.0
    width = max(len(node.name) for node in nodes)
    lines = []
    for node, row in zip(nodes, table, strict=True):
        cells = "".join(_SHADES[math.ceil((len(_SHADES) - 1) * rate / top)] * 2 for rate in row)
        lines.append(f"{node.name:>{width}} |{cells}|")
    return lines


def svg(graph: TaskGraph, nodes: Sequence[Node], assignment: Assignment) -> str:
    """Draw nodes on a circle, their workers as rows of dots coloured by operator, and lines as wide as the traffic."""
    columns = max((len(tasks) for tasks in assignment.by_worker.values()), default=1)
    box_w = max(_BOX_MIN, columns * (_DOT + _GAP) + 2 * _GAP)
    box_h = max(node.workers for node in nodes) * (_DOT + 2 * _GAP) + 24
    radius = max(box_w, box_h) * max(1.0, len(nodes) / math.pi)
    centre = radius + max(box_w, box_h) / 2 + _MARGIN
    places = [
        (
            centre + radius * math.sin(2 * math.pi * i / len(nodes)),
            centre - radius * math.cos(2 * math.pi * i / len(nodes)),
        )
        for i in range(len(nodes))
    ]
    colour = {operator: _COLOURS[i % len(_COLOURS)] for i, operator in enumerate(graph.operators)}
    size = f"{2 * centre:.0f}"
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{size}" height="{size}" font-family="sans-serif">']
    parts.append(f"<title>{escape(graph.name)}</title><rect width='100%' height='100%' fill='white'/>")
    parts += _lines(node_traffic(graph.edges, nodes, assignment), places)
    for node, (x, y) in zip(nodes, places, strict=True):
        parts += _box(graph, node, assignment, colour, (x - box_w / 2, y - box_h / 2, box_w, box_h))
    for i, (operator, paint) in enumerate(list(colour.items())[: len(_COLOURS)]):
        y = 14 + i * 16
        parts.append(f'<circle cx="10" cy="{y}" r="5" fill="{paint}"/>')
        parts.append(f'<text x="20" y="{y + 4}" font-size="11">{escape(operator)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _lines(table: Sequence[Sequence[float]], places: Sequence[tuple[float, float]]) -> list[str]:
    both = {(i, j): table[i][j] + table[j][i] for j in range(len(table)) for i in range(j)}
    top = max(both.values(), default=0.0) or 1.0
    return [
        f'<line x1="{places[i][0]:.1f}" y1="{places[i][1]:.1f}" x2="{places[j][0]:.1f}" y2="{places[j][1]:.1f}" '
        f'stroke="#999" stroke-opacity="0.6" stroke-width="{0.3 + 7 * rate / top:.2f}"/>'
        for (i, j), rate in both.items()
        if rate
    ]


def _box(
    graph: TaskGraph,
    node: Node,
    assignment: Assignment,
    colour: dict[str, str],
    box: tuple[float, float, float, float],
) -> list[str]:
    x, y, width, height = box
    parts = [
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="#f8f8f8" stroke="#333"/>',
        f'<text x="{x + _GAP:.1f}" y="{y + 13:.1f}" font-size="11">{escape(node.name)}</text>',
    ]
    for worker in range(node.workers):
        row = y + 20 + worker * (_DOT + 2 * _GAP) + _DOT
        for i, task in enumerate(assignment.by_worker.get((node.name, worker), ())):
            at = x + 2 * _GAP + i * (_DOT + _GAP)
            paint = colour[graph.vertices[graph.position[task]].operator]
            dot = f'<circle cx="{at:.1f}" cy="{row:.1f}" r="{_DOT / 2}" fill="{paint}">'
            parts.append(f"{dot}<title>{escape(task)}</title></circle>")
    return parts
