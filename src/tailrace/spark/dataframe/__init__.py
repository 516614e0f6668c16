"""Rows between a DataFrame and a topology: into the workers through lanes, and out through the log of a table.

``feed`` runs the Spark side, with ``feed_server`` on the driver, ``feed_sender`` in Spark's tasks and ``ingest`` in the
workers; ``datasource`` lets Spark read a table; ``apply`` puts both ends together for a bounded DataFrame.
"""

from __future__ import annotations
