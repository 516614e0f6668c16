"""Draws a report's panels into one figure. Needs matplotlib, which the extra ``tailrace[plots]`` brings."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

from .errors import PlotsMissingError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .comparison import PlotPanel, SimulationReport

_PANEL_IN = (5.2, 3.4)
_COLUMNS = 3
_MARKERS = "osv^Dx+*"
_BARS_WIDTH = 0.8
_TICKS_FLAT = 4
_ROOM_FOR_LEGEND, _LEGEND_COLUMNS = 1.25, 4
_TITLE_CHARACTERS, _TITLE_PT = 56, 10.5
#: On a logarithmic axis so many values get ticks of their own.
_OWN_TICKS_MAX = 8
_KIB = 1024
_LEGEND_ALPHA = 0.5


def draw(report: SimulationReport, file: Path, commit: str | None) -> None:
    """Write all panels of a report; the commit stands below."""
    if not report.panels:
        raise PlotsMissingError(f"Scenario {report.scenario!r} has nothing to draw.", "Leave --plot out.")
    draw_panels(report.panels, file, f"tailrace simulate {report.scenario}, commit {commit or 'unknown'}")


def draw_panels(panels: Sequence[PlotPanel], file: Path, below: str) -> None:
    """Write panels into one figure. White ground, so that it reads on light and dark pages."""
    try:
        from matplotlib import rc_context  # noqa: PLC0415 - an optional dependency
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise PlotsMissingError(
            "Plots need matplotlib, which is not installed.", "pip install 'tailrace[plots]', or leave --plot out."
        ) from error
    columns = min(_COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(_PANEL_IN[0] * columns, _PANEL_IN[1] * rows + 0.3), layout="constrained", facecolor="w")
    for axes, panel in zip(figure.subplots(rows, columns, squeeze=False).flat, panels, strict=False):
        _draw_panel(axes, panel)
    for axes in list(figure.axes)[len(panels) :]:
        axes.set_visible(False)
    figure.supxlabel(below, fontsize=8, color="0.4")
    file.parent.mkdir(parents=True, exist_ok=True)
    # Letters as text, not as outlines: smaller, and they can be searched for.
    with rc_context({"svg.fonttype": "none"}):
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def _draw_panel(axes: Any, panel: PlotPanel) -> None:
    if panel.ticks:
        _draw_bars(axes, panel)
    else:
        _draw_lines(axes, panel)
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label.replace("_", " "))
    axes.set_title("\n".join(textwrap.wrap(panel.title, _TITLE_CHARACTERS)), fontsize=_TITLE_PT)
    if panel.log_x:
        axes.set_xscale("log")
        _plain_ticks(axes.xaxis, sorted({x for points in panel.lines.values() for x, _ in points}))
    if panel.log_y:
        axes.set_yscale("log")
        _plain_ticks(axes.yaxis)
    elif all(y >= 0 for points in panel.lines.values() for _, y in points):
        axes.set_ylim(bottom=0)  # a difference of one in a hundred should look like one
    axes.grid(visible=True, alpha=0.3)
    if panel.ticks:  # bars stand everywhere, so the legend gets a strip of its own above them
        axes.set_ylim(top=axes.get_ylim()[1] * _ROOM_FOR_LEGEND)
        axes.legend(fontsize=7, loc="upper center", ncols=min(_LEGEND_COLUMNS, len(panel.lines)))
    elif any(panel.lines.values()):
        # What lies behind it must still be seen.
        axes.legend(fontsize=7, framealpha=_LEGEND_ALPHA)


def _plain_ticks(axis: Any, values: Sequence[float] = ()) -> None:
    """Write 200 rather than 2 x 10^2, at the values themselves where they are few."""
    from matplotlib import ticker  # noqa: PLC0415 - an optional dependency

    own = 0 < len(values) <= _OWN_TICKS_MAX
    axis.set_major_locator(ticker.FixedLocator(values) if own else ticker.LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: _plain(value)))
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_tick_params(labelsize=8)


def _plain(value: float) -> str:
    return f"{value / _KIB:g} Ki" if value and value % _KIB == 0 else f"{value:,.10g}"


def _draw_lines(axes: Any, panel: PlotPanel) -> None:
    for index, (name, points) in enumerate(panel.lines.items()):
        if points:
            marker = _MARKERS[index % len(_MARKERS)]
            every = max(1, len(points) // 8)
            axes.plot(
                *zip(*points, strict=True), marker=marker, markevery=every, markersize=4, linewidth=1.2, label=name
            )


def _draw_bars(axes: Any, panel: PlotPanel) -> None:
    width = _BARS_WIDTH / max(1, len(panel.lines))
    for index, (name, points) in enumerate(panel.lines.items()):
        offset = (index - (len(panel.lines) - 1) / 2) * width
        axes.bar([x + offset for x, _ in points], [y for _, y in points], width, label=name)
    axes.set_xticks(
        range(len(panel.ticks)), panel.ticks, rotation=30 if len(panel.ticks) > _TICKS_FLAT else 0, ha="right"
    )
    axes.tick_params(axis="x", labelsize=7)
