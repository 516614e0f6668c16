"""Draws a report: duration of every stage, time of every task over its input, and who was slow how often.

Called by the command line. Whatever log could be read is drawn, also one stage alone. Needs matplotlib.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ..errors import PlotError
from .causes import DATA, MEASURES, SLOW, UNKNOWN

if TYPE_CHECKING:
    from pathlib import Path

    from .report import LogReport, StageGroup

_KINDS = {SLOW: ("slow", "tab:red"), UNKNOWN: ("slow, input unknown", "tab:orange"), DATA: ("more data", "tab:blue")}


def draw(report: LogReport, target: Path) -> Path:
    """Write one figure with three panels per group."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  an optional dependency
    except ImportError as error:
        raise PlotError("Plots need matplotlib, which is not installed.", "pip install 'matplotlib>=3.9,<4'") from error
    figure = Figure(figsize=(16, 3.8 * len(report.groups)), layout="constrained")
    panels = figure.subplots(len(report.groups), 3, squeeze=False)
    for row, (name, group) in zip(panels, report.groups.items(), strict=True):
        _draw_stages(row[0], name, group, report.plan)
        _draw_tasks(row[1], group)
        _draw_late(row[2], group)
    try:
        figure.savefig(target)
    except (OSError, ValueError) as error:
        raise PlotError(
            f"The plots could not be written to {target}: {error}.",
            "Give a file in a folder that exists, with a name that ends in .png, .svg or .pdf.",
        ) from error
    return target


def _draw_stages(panel: Any, name: str, group: StageGroup, plan: str) -> None:
    # Markers, because a line through one point shows nothing.
    number = {stage.stage: at for at, stage in enumerate(group.stages)}
    panel.plot([max(1, stage.took_ms) / 1000 for stage in group.stages], marker="o", label="recorded")
    if not group.estimate.reason:
        at = [number[each.stage] for each in group.replayed]
        panel.plot(at, [each.planned_ms / 1000 for each in group.replayed], marker="s", label=f"plan {plan}")
        ideal_s = [each.ideal_ms / 1000 for each in group.replayed]
        panel.plot(at, ideal_s, marker=".", linestyle=":", label="perfect knowledge")
    panel.set(title=f"{name}: stage duration", xlabel="stage, in order", ylabel="duration, s", yscale="log")
    panel.xaxis.get_major_locator().set_params(integer=True)
    panel.legend()


def _draw_tasks(panel: Any, group: StageGroup) -> None:
    """Time over input: tasks that lie on a line had more data, tasks above it ran on a slow executor."""
    tasks = [task for stage in group.stages for task in stage.tasks]
    measure = max(MEASURES, key=lambda each: sum(each.of(task) > 0 for task in tasks))
    known = any(map(measure.of, tasks))
    executors = sorted({task.executor for task in tasks})
    for place, executor in enumerate(executors):
        own = [task for task in tasks if task.executor == executor]
        across = [measure.of(task) for task in own] if known else [place] * len(own)
        panel.plot(across, [max(1, task.duration_ms) / 1000 for task in own], linestyle="", marker=".", label=executor)
    panel.set(title="tasks, by executor", ylabel="duration of a task, s", yscale="log")
    if known:
        panel.set(xlabel=f"{measure.unit} read by the task", xscale="symlog")
        panel.legend(title="executor", fontsize="small")
    else:
        panel.set(xlabel="executor (the log counts no input)")
        panel.set_xticks(range(len(executors)), executors)


def _draw_late(panel: Any, group: StageGroup) -> None:
    counts = Counter((cause.executor, cause.kind) for cause in group.causes)
    names = sorted({executor for executor, _ in counts}, key=lambda e: -sum(counts[e, kind] for kind in _KINDS))
    left = [0] * len(names)
    for kind, (label, colour) in _KINDS.items():
        widths = [counts[executor, kind] for executor in names]
        if any(widths):
            hosts = [f"{executor} ({group.locality.hosts[executor]})" for executor in names]
            panel.barh(hosts, widths, left=left, color=colour, label=label)
            left = [begin + width for begin, width in zip(left, widths, strict=True)]
    panel.set(title="stages in which tasks took longer", xlabel="stages", ylabel="executor (host)")
    if names:
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.legend()
    else:
        alone = not group.locality.stages_used
        said = "no stage has two executors\nand enough tasks to compare" if alone else "no executor was slow"
        panel.text(0.5, 0.5, said, ha="center", va="center", transform=panel.transAxes)
