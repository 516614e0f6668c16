"""The benchmark of Lever: real Spark on one machine, four executors on four host names, one of them made slow.

``python -m tailrace_bench.lever --quick --json FILE`` runs it, as does ``tailrace bench lever``. ``cluster`` starts a
standalone Spark, ``slow`` stops and continues processes, ``driver`` is the Spark application that runs arms
on command, ``workloads`` are the queries, ``arms`` the ways to run them, ``measure`` the rounds, ``rows`` the figures,
``scenarios`` and ``sweeps`` the rest. Linux only.
"""

from __future__ import annotations
