"""To whom a tuple goes: one file per rule, all behind ``Router``; ``by_grouping`` picks the rule of an edge."""

from __future__ import annotations

from .base import Router
from .registry import goes_by_pending, is_free, near_rule, router_for

__all__ = ["Router", "goes_by_pending", "is_free", "near_rule", "router_for"]
