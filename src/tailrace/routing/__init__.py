"""To whom a tuple goes: one file per rule, all behind ``Router``; ``by_grouping`` picks the rule of an edge."""

from __future__ import annotations

from .base import Router
from .registry import BALANCED, PENDING_ROUTINGS, free_rule, goes_by_pending, is_free, near_rule, router_for

__all__ = [
    "BALANCED",
    "PENDING_ROUTINGS",
    "Router",
    "free_rule",
    "goes_by_pending",
    "is_free",
    "near_rule",
    "router_for",
]
