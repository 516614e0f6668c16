"""Pictures of a topology."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .graph import Topology


def tree(topology: Topology) -> str:
    """Draw a tree."""
    return repr(topology)


def mermaid(topology: Topology) -> str:
    """Draw a flowchart."""
    return repr(topology)
