"""Lever: pre-scheduling of micro-batches by what each executor can carry.

The way of a decision is the order of the modules: ``observe`` (task ends to node finish times), ``predict`` and
``capacity`` (who will straggle, who can carry how much), ``plans`` (how much each gets), ``split`` (which pieces),
``planner`` (all of these, per query), ``apply`` (the JVM). ``session`` and ``shim`` are for before the session
starts.
"""

from __future__ import annotations

from .apply import Lever, LeverStatus, disable, enable, status
from .planner import BatchStatus, ExecutorStatus
from .plans import DampedPlan, EvenPlan, LeverPlan, ProportionalPlan
from .session import configure, settings, speculation_settings
from .watch import ProgressListener

__all__ = [
    "BatchStatus",
    "DampedPlan",
    "EvenPlan",
    "ExecutorStatus",
    "Lever",
    "LeverPlan",
    "LeverStatus",
    "ProgressListener",
    "ProportionalPlan",
    "configure",
    "disable",
    "enable",
    "settings",
    "speculation_settings",
    "status",
]
