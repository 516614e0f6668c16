"""Reads a Spark event log and says who straggles, how persistently, and what pre-scheduling would have gained.

``eventlog`` and ``tables`` give tasks, ``locality`` finds stragglers and the lift over the base rate, ``causes`` tells
slow executors from those that had more data, ``replay`` runs the recorded batches through a plan, ``report`` puts it
together, ``wording`` words it, ``plots`` draws it. None of them needs a running Spark.
"""

from __future__ import annotations

from .report import LogReport, explain

__all__ = ["LogReport", "explain"]
