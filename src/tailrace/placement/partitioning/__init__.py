"""Algorithms that cut a task graph into parts of bounded load with little traffic between them.

The partitioning policies of the folder above (TurboStream, StroMAX, METIS, auto) are made of these; all of them work on
numbers (``indexed``), and ``settle`` turns parts into places on nodes and workers again. Pure.
"""

from __future__ import annotations
