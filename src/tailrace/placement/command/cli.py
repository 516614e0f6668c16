"""``tailrace place``: show where a policy would put the tasks of a topology file or METIS graph, and what it costs.

The main command line mounts ``place``; nothing is started and nothing but the files asked for is written.
"""

from __future__ import annotations

import json
import re
from pathlib import Path  # noqa: TC003 - typer reads the annotations when the command is built
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tailrace.errors import ConfigError

from ..accounting import account
from ..errors import BalanceError, UnknownPolicyError
from ..files.topology_file import read_graph
from ..model import parse_nodes
from ..registry import POLICIES, balance_bound, by_name
from .drawing import NODES_DRAWN_MAX, node_traffic, svg, traffic_map, worker_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..accounting import Account
    from ..model import Assignment, Node, TaskGraph

_NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
#: Whole-numbered weights round; that is no miss.
_ROUNDING = 1e-6
_WORDS: dict[str, Any] = {"true": True, "false": False, "none": None}


def place(
    file: Annotated[Path, typer.Argument(help="Topology (.json) or METIS graph (.graph, .mgraph).")],
    nodes: Annotated[
        str, typer.Option(help="Nodes x workers, e.g. 8x4; 40x1x10 also caps the tasks of a node.")
    ] = "4x1",
    policy: Annotated[str, typer.Option(help=f"One of {', '.join(POLICIES)}.")] = "auto",
    shuffle: Annotated[str, typer.Option(help="even, worker (own worker first) or node (then own node).")] = "even",
    option: Annotated[list[str] | None, typer.Option("--option", "-o", help="Policy option KEY=VALUE.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the result as JSON.")] = None,
    draw: Annotated[Path | None, typer.Option(help="Write a drawing as SVG.")] = None,
) -> None:
    """Place the tasks of FILE on nodes and print assignment, cut, balance and predicted traffic."""
    if draw is not None and draw.suffix != ".svg":
        raise ConfigError(f"Drawings are SVG, so --draw needs a name ending in .svg, found {draw}.", "Rename it.")
    chosen = by_name(policy, **parse_options(option or []))
    graph = read_graph(file)
    hosts = parse_nodes(nodes)
    assignment = chosen.place(graph, hosts, None)
    found = account(graph, hosts, assignment, shuffle)
    bound = balance_bound(chosen)
    show(Console(), graph, hosts, assignment, found, bound)
    if json_file is not None:
        text = json.dumps(as_json(graph, policy, hosts, assignment, found, bound), indent=1)
        json_file.write_text(text + "\n", encoding="utf-8")
    if draw is not None:
        draw.write_text(svg(graph, hosts, assignment), encoding="utf-8")
    if _missed(found, bound):
        raise BalanceError(
            f"The fullest node was to carry at most {1 + (bound or 0):.4f} of its share, and carries "
            f"{found.imbalance:.4f}.",
            _way_out(graph, hosts, bound or 0.0),
        )


def _missed(found: Account, bound: float | None) -> bool:
    return bound is not None and found.imbalance > 1 + bound + _ROUNDING


def _way_out(graph: TaskGraph, nodes: Sequence[Node], bound: float) -> str:
    """Tell a bound that nothing could keep from one that this policy did not."""
    weights = sorted((vertex.cpu for vertex in graph.vertices), reverse=True)
    share = sum(weights) / len(nodes)
    # Of the m x nodes + 1 heaviest tasks some node has m + 1, at best the lightest of them.
    many = range((len(weights) - 1) // len(nodes) + 1)
    least = max(sum(weights[m * len(nodes) - m : m * len(nodes) + 1]) for m in many)
    if least > share * (1 + bound + _ROUNDING):
        return (
            f"No placement keeps that on {len(nodes)} nodes: a task cannot be cut, and at best the fullest carries "
            f"{least / share:.4f}. Use other --nodes, more tasks, or a larger bound."
        )
    return "Try --policy auto, another -o seed=, or a larger bound (-o imbalance_max=, for stromax -o theta=)."


def parse_options(texts: Sequence[str]) -> dict[str, Any]:
    """Read KEY=VALUE pairs; a value is a number, true, false, none, or a word."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise UnknownPolicyError(f"Expected KEY=VALUE after --option, found {text!r}.", "For example seed=1.")
        found[key] = _value(value)
    return found


def _value(text: str) -> Any:
    if _NUMBER.fullmatch(text):
        return float(text) if set(text) & set(".e") else int(text)
    return _WORDS.get(text.lower(), text)


def show(
    console: Console,
    graph: TaskGraph,
    nodes: Sequence[Node],
    assignment: Assignment,
    found: Account,
    bound: float | None = None,
) -> None:
    """Print the assignment, the streams, the traffic map and the sums."""
    console.print(f"[bold]{graph.name}[/bold]: {len(graph.vertices)} tasks, {len(graph.edges)} edges")
    console.print(_assignment_table(graph, nodes, assignment, found))
    console.print(_stream_table(found))
    if len(nodes) <= NODES_DRAWN_MAX:
        console.print("Traffic between nodes (row sends, column receives):", highlight=False)
        for line in traffic_map(node_traffic(graph.edges, nodes, assignment), nodes):
            console.print(line, markup=False, highlight=False)
    total = found.total
    console.print(f"cut            {found.cut:,.0f} bytes/s between nodes ({total.inter_node_tuples:,.0f} tuples/s)")
    console.print(
        f"balance        {found.imbalance:.4f} over nodes, {found.worker_imbalance:.4f} over workers (max/mean)"
    )
    if bound is not None:
        kept = "missed" if _missed(found, bound) else "kept"
        console.print(f"bound          {1 + bound:.4f} over nodes: {kept}")
    console.print(
        f"between processes {total.intra_node_share:.2%} stays on its node, {total.inter_node_share:.2%} does not"
    )
    if found.skew > 1:
        console.print(f"skew           the busiest task receives {found.skew:.2f} x its even share")


def _assignment_table(graph: TaskGraph, nodes: Sequence[Node], assignment: Assignment, found: Account) -> Table:
    table = Table("node", "worker", "tasks", "load", title="Assignment")
    for node in nodes[:NODES_DRAWN_MAX]:
        for worker in range(node.workers):
            tasks = assignment.by_worker.get((node.name, worker), ())
            line = worker_line(graph, tasks).replace("[", r"\[")
            table.add_row(node.name, str(worker), line, f"{found.worker_loads[node.name, worker]:,.1f}")
    if len(nodes) > NODES_DRAWN_MAX:
        table.add_row("...", "", f"and {len(nodes) - NODES_DRAWN_MAX} more nodes (all of them with --json)", "")
    return table


def _stream_table(found: Account) -> Table:
    table = Table("stream", "same worker", "same node", "other node", "crossing", title="Predicted traffic, bytes/s")
    for (src, dst), traffic in found.streams.items():
        whole = traffic.in_process_bytes + traffic.intra_node_bytes + traffic.inter_node_bytes
        table.add_row(
            f"{src} -> {dst}",
            f"{traffic.in_process_bytes:,.0f}",
            f"{traffic.intra_node_bytes:,.0f}",
            f"{traffic.inter_node_bytes:,.0f}",
            f"{traffic.inter_node_bytes / whole:.1%}" if whole else "-",
        )
    return table


def as_json(
    graph: TaskGraph,
    policy: str,
    nodes: Sequence[Node],
    assignment: Assignment,
    found: Account,
    bound: float | None = None,
) -> dict[str, Any]:
    """Everything that was printed, for other programs; documented in docs/placement.md."""
    kinds = ("in_process", "intra_node", "inter_node")
    return {
        "graph": graph.name,
        "policy": policy,
        "nodes": [
            {"name": n.name, "workers": n.workers, "slots": n.slots, "load": found.node_loads[n.name]} for n in nodes
        ],
        "assignment": {
            vertex.id: {"node": assignment.node_of[vertex.id], "worker": assignment.worker_of[vertex.id]}
            for vertex in graph.vertices
        },
        "cut_bytes_per_s": found.cut,
        "imbalance": found.imbalance,
        "imbalance_bound": None if bound is None else 1 + bound,
        "imbalance_kept": None if bound is None else not _missed(found, bound),
        "worker_imbalance": found.worker_imbalance,
        "skew": found.skew,
        "intra_node_share": found.total.intra_node_share,
        "inter_node_share": found.total.inter_node_share,
        "streams": [
            {"src": src, "dst": dst}
            | {f"{kind}_tuples_per_s": getattr(traffic, f"{kind}_tuples") for kind in kinds}
            | {f"{kind}_bytes_per_s": getattr(traffic, f"{kind}_bytes") for kind in kinds}
            for (src, dst), traffic in found.streams.items()
        ],
    }
