"""The plans by name: ``lever`` (the paper's), ``proportional``, ``damped`` (our own) and the baseline ``even``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import ConfigError, nearest

from .base import BatchPlan, ExecutorNode, LoadAssignment, Memory
from .damped import DampedPlan
from .even import EvenPlan
from .paper import LeverPlan
from .proportional import ProportionalPlan

if TYPE_CHECKING:
    from collections.abc import Callable

PLANS: dict[str, Callable[[], BatchPlan]] = {
    "damped": DampedPlan,
    "even": EvenPlan,
    "lever": LeverPlan,
    "proportional": ProportionalPlan,
}
DEFAULT_PLAN = "damped"


def plan_of(choice: str | BatchPlan) -> BatchPlan:
    """Find a plan by name; a plan object is taken as it is."""
    if not isinstance(choice, str):
        return choice
    if choice not in PLANS:
        raise ConfigError(f"There is no Lever plan {choice!r}.", nearest(choice, PLANS))
    return PLANS[choice]()


__all__ = [
    "DEFAULT_PLAN",
    "PLANS",
    "BatchPlan",
    "DampedPlan",
    "EvenPlan",
    "ExecutorNode",
    "LeverPlan",
    "LoadAssignment",
    "Memory",
    "ProportionalPlan",
    "plan_of",
]
