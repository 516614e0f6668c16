"""The empty sheet of the benchmark's plots, and how it is kept: with what made it below. Needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.metrics import provenance

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure


def sheet(width_in: float, height_in: float) -> Figure:
    """Begin a plot."""
    from matplotlib.figure import Figure  # noqa: PLC0415  an optional dependency

    return Figure(figsize=(width_in, height_in), layout="constrained")


def keep(figure: Figure, target: Path) -> None:
    """Write a plot to a file."""
    figure.supxlabel(f"tailrace bench lever, commit {provenance.commit() or 'unknown'}", fontsize=8, color="0.4")
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target)
