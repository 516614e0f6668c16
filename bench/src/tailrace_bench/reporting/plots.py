"""Draws the curves of the benches; needs matplotlib, which the extra ``tailrace[plots]`` brings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.metrics import provenance
from tailrace_bench.errors import BenchPlotsMissingError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from .rows import Row


class Curve(NamedTuple):
    """One plot: its title, the metric, what its cases begin with, the label of the x axis and the base of its scale."""

    title: str
    metric: str
    prefix: str
    x_label: str
    base: int


#: By file name.
SCALE = {
    "scale-throughput": Curve("Saturated word count", "sentences_per_s", "tasks=", "tasks per operator", 2),
    "scale-p99": Curve("p99 of complete latency at 2,000 sentences/s", "p99_ms", "tasks=", "tasks per operator", 2),
    "scale-coordinator": Curve("CPU of the coordinator", "cores", "coordinator,workers=", "simulated workers", 10),
}
_SIZE_IN = (6.0, 3.6)


def points(rows: Sequence[Row], metric: str, prefix: str) -> list[tuple[int, float]]:
    """The curve of a metric over the number at the end of its cases."""
    found = [
        (int(row["case"].rpartition("=")[2]), row["value"])
        for row in rows
        if row["metric"] == metric and row["case"].startswith(prefix) and row["value"] is not None
    ]
    return sorted(found)


def draw(rows: Sequence[Row], folder: Path, curves: Mapping[str, Curve] = SCALE) -> list[Path]:
    """Write each curve that has points as SVG and PNG."""
    pyplot = pyplot_of_files()
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, (title, metric, prefix, x_label, base) in curves.items():
        curve = points(rows, metric, prefix)
        if not curve:
            continue
        unit = next(row["unit"] for row in rows if row["metric"] == metric and row["case"].startswith(prefix))
        figure, axes = pyplot.subplots(figsize=_SIZE_IN, layout="constrained")
        axes.plot(*zip(*curve, strict=True), marker="o", label="tailrace")
        axes.set(title=title, xlabel=x_label, ylabel=f"{metric.replace('_', ' ')}, {unit}", ylim=(0, None))
        axes.legend(fontsize=7)
        axes.set_xscale("log", base=base)
        axes.set_xticks([x for x, _ in curve], [f"{x:,}" for x, _ in curve])
        axes.grid(visible=True, alpha=0.3)
        figure.supxlabel(made_by("scale"), fontsize=8, color="0.4")
        for ending in ("svg", "png"):
            files.append(folder / f"{name}.{ending}")
            figure.savefig(files[-1])
        pyplot.close(figure)
    return files


def made_by(bench: str) -> str:
    """What stands below a plot."""
    return f"tailrace bench {bench}, commit {provenance.commit() or 'unknown'}"


def pyplot_of_files() -> Any:
    """Matplotlib's pyplot, drawing into files; a named error where it is not installed."""
    try:
        import matplotlib as mpl  # noqa: PLC0415
    except ImportError as error:
        raise BenchPlotsMissingError(
            "Plots need matplotlib, which is not installed.", "pip install 'tailrace[plots]', or leave --plots out."
        ) from error
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the backend was chosen

    return plt
