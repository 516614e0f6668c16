"""Figures of the pages, like the papers': panels of a simulation's JSON, or curves over the cases of a bench.

``pages`` calls it. Drawing itself is the simulator's; without matplotlib pages come without figures and say so.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tailrace.simulate.comparison import PlotPanel
from tailrace.simulate.errors import PlotsMissingError
from tailrace.simulate.plots import draw_panels

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from .claims import Plot

_SUFFIXES = {"K": 1e3, "KB": 1024.0, "MB": 1024.0**2, "B": 1.0, "N": 1.0, "": 1.0}
_NUMBER = re.compile(r"([0-9.]+)([A-Za-z]*)")


def panels_of(plot: Plot, document: Mapping[str, Any]) -> list[PlotPanel]:
    """What a plot shows of a job's JSON; nothing when the job has no such rows."""
    if plot.panels:
        found = [PlotPanel(**_lists_to_points(panel)) for panel in document.get("panels", [])]
        return [panel for wanted in plot.panels for panel in found if panel.title.startswith(wanted)]
    lines, names = _curves(plot, document)
    if not lines:
        return []
    ticks = tuple(names) if any(_as_number(name) is None for name in names) else ()
    points = {
        line: sorted((float(names.index(x)) if ticks else _as_number(x) or 0.0, y) for x, y in found.items())
        for line, found in lines.items()
    }
    return [PlotPanel(plot.title, plot.x_label, plot.y_label, points, plot.log_x, plot.log_y, ticks)]


def draw(plot: Plot, document: Mapping[str, Any], folder: Path, below: str) -> Path | None:
    """Draw a plot; None where there is nothing to draw or nothing to draw with."""
    panels = panels_of(plot, document)
    if not panels:
        return None
    file = folder / f"{plot.id}.svg"
    try:
        draw_panels(panels, file, below)
    except PlotsMissingError:
        return None
    return file


def _curves(plot: Plot, document: Mapping[str, Any]) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Values by line and x, and the x in the order of the rows; a baseline's own value makes a line of its own."""
    lines: dict[str, dict[str, float]] = {}
    names: list[str] = []
    for row in document["rows"]:
        matched = re.fullmatch(plot.case, row["case"])
        if matched is None or row.get("metric") != plot.metric or (plot.baseline and row["baseline"] != plot.baseline):
            continue
        groups = matched.groupdict()
        x = groups["x"]
        names += [x] if x not in names else []
        if row["value"] is not None:
            lines.setdefault(groups.get("line") or plot.ours, {})[x] = row["value"]
        if row["baseline_value"] is not None:
            lines.setdefault(row["baseline"], {})[x] = row["baseline_value"]
    return lines, names


def _as_number(text: str) -> float | None:
    """Read 40KB, 3000 or 0.5; None for a name."""
    matched = _NUMBER.fullmatch(text)
    if matched is None or matched[2] not in _SUFFIXES:
        return None
    return float(matched[1]) * _SUFFIXES[matched[2]]


def _lists_to_points(panel: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has no tuples."""
    lines = {name: [(x, y) for x, y in points] for name, points in panel["lines"].items()}
    return {**panel, "lines": lines, "ticks": tuple(panel.get("ticks", ()))}
