"""Collects lookup tables again on their interval and tells all workers: a companion of the query."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from tailrace.connect.lookup import noticing
from tailrace.protocol import Refresh
from tailrace.topology.ship import ship
from tailrace.transport import codec

if TYPE_CHECKING:
    from tailrace.connect.lookup import Lookup
    from tailrace.coordinator.query import Query
    from tailrace.topology.graph import Topology

_log = logging.getLogger("tailrace")


def lookups_of(flow: Topology) -> list[Lookup]:
    """The lookups that a topology's functions hold and that ask to be refreshed; all are collected by this."""
    with noticing() as found:
        ship(flow)
    return [lookup for lookup in found if lookup.refresh_s is not None]


class Refresher:
    """Keeps the lookups of one query fresh."""

    def __init__(self, lookups: list[Lookup]) -> None:
        self._lookups = lookups
        self._ended = threading.Event()

    def running(self, query: Query) -> None:
        """Begin to refresh."""
        threading.Thread(target=self._serve, args=(query,), name="tailrace-lookups", daemon=True).start()

    def _serve(self, query: Query) -> None:
        due_s = {lookup.name: time.monotonic() + (lookup.refresh_s or 0) for lookup in self._lookups}
        while not self._ended.wait(max(0.0, min(due_s.values()) - time.monotonic())):
            for lookup in self._lookups:
                if time.monotonic() >= due_s[lookup.name]:
                    self._refresh(query, lookup)
                    due_s[lookup.name] = time.monotonic() + (lookup.refresh_s or 0)

    def _refresh(self, query: Query, lookup: Lookup) -> None:
        try:
            lookup.refresh()
        except Exception as error:  # noqa: BLE001 - Py4J wraps whatever Spark throws
            if not self._ended.is_set():
                _log.warning("a lookup of query %s keeps its old rows: %s", query.name, error)
            return
        query.tell_workers(Refresh(lookup.name, lookup.version, codec.dumps(lookup.table)))

    def attend(self, marks: dict[int, int]) -> None:
        """Nothing to do."""

    def stopping(self, *, now: bool) -> None:  # noqa: ARG002 - nothing here takes time
        """Refresh no more."""
        self._ended.set()

    def ended(self) -> None:
        """Refresh no more."""
        self._ended.set()
