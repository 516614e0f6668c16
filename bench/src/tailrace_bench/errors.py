"""What can keep a bench from running or from being believed."""

from __future__ import annotations

from tailrace.errors import TailraceError


class BenchError(TailraceError):
    """Base: a bench could not be run."""

    exit_code = 8


class UnknownBenchError(BenchError):
    """There is no bench, or no case, of this name."""

    exit_code = 2


class LoadedMachineError(BenchError):
    """The machine has other work, so that figures would mean nothing."""


class PeerMissingError(BenchError):
    """The engine to compare with could not be installed."""


class ArmError(BenchError):
    """An arm did not start, did not come to rest or died."""


class WrongResultError(BenchError):
    """An arm gave other results than the bare loop: its speed means nothing."""


class BenchPlotsMissingError(BenchError):
    """Plots were asked for and matplotlib is not there."""
