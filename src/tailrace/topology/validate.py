"""Checks of a topology."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .operators import OperatorSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .graph import Topology
    from .operators import Kind, Verb


def check_operator(name: str, kind: Kind, verb: Verb, fn: object, settings: Mapping[str, Any]) -> OperatorSpec:
    """Make the spec."""
    return OperatorSpec(name, kind, verb, fn, **settings)


def validate(topology: Topology) -> None:
    """Check."""
