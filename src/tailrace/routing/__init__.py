"""To whom a tuple goes: one file per rule, all behind ``Router``; ``by_grouping`` picks the rule of an edge."""

from __future__ import annotations

from .base import Router
from .registry import router_for

__all__ = ["Router", "router_for"]
