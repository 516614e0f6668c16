"""Draws a report: recorded and planned duration per stage, and who was slow where. Needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import LeverError

if TYPE_CHECKING:
    from pathlib import Path

    from .report import Report


def draw(report: Report, target: Path) -> Path:
    """Write one figure with two panels per group."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  an optional dependency
    except ImportError as error:
        raise LeverError("Plots need matplotlib, which is not installed.", "pip install matplotlib") from error
    groups = [group for group, replayed in report.replayed.items() if replayed]
    if not groups:
        raise LeverError("Nothing in this log can be drawn: no stage has two executors.", "Leave --plot out.")
    figure = Figure(figsize=(12, 3.5 * len(groups)), layout="constrained")
    panels = figure.subplots(len(groups), 2, squeeze=False)
    for (left, right), group in zip(panels, groups, strict=True):
        replayed, found = report.replayed[group], report.locality[group]
        left.plot([each.recorded_ms / 1000 for each in replayed], label="recorded")
        left.plot([each.planned_ms / 1000 for each in replayed], label=f"plan {report.plan}")
        left.plot([each.ideal_ms / 1000 for each in replayed], label="perfect knowledge", linestyle=":")
        left.set(title=f"{group}: stage duration", xlabel="stage, in order", ylabel="duration, s", yscale="log")
        left.legend()
        names = [f"{executor} ({found.hosts[executor]})" for executor in found.slow_stages]
        right.barh(names, [len(own) for own in found.slow_stages.values()])
        right.set(title="stages in which an executor was slow", xlabel="stages", ylabel="executor (host)")
    figure.savefig(target)
    return target
