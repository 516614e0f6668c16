"""To whom a tuple goes: one file per rule, all behind ``Router``; ``by_grouping`` picks the rule of an edge."""

from __future__ import annotations

from .base import Router
from .registry import PENDING_ROUTINGS, free_rule, goes_by_pending, is_free, router_for

__all__ = ["PENDING_ROUTINGS", "Router", "free_rule", "goes_by_pending", "is_free", "router_for"]
