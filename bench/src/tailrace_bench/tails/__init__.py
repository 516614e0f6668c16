"""Benches of the policies against the tail: Du & Gupta's scenarios on the real runtime, with timed waits for work."""

from __future__ import annotations
