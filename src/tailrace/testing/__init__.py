"""The testing kit, public: what a user's tests and Tailrace's own share.

It may use every other room; no other room uses it.
"""

from __future__ import annotations

from tailrace.testing.proxy import FaultyProxy

__all__ = ["FaultyProxy"]
