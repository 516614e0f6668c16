"""What can be wrong with a simulation that was asked for."""

from __future__ import annotations

from tailrace.errors import TailraceError


class SimulationError(TailraceError):
    """Base: the simulation cannot be run as described."""

    exit_code = 2


class UnknownScenarioError(SimulationError):
    """There is no scenario, arm or option of that name."""


class ModelError(SimulationError):
    """The topology, the nodes or the policies do not fit together."""


class PlotsMissingError(SimulationError):
    """Plots were asked for and matplotlib is not installed."""

    exit_code = 6
