"""The function that Spark ships to executors. It travels by value, so that it can say so where Tailrace is missing.

Keep it free of module-level imports of Tailrace: those would make the executor fail before the first line runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def host_worker(slot: int, rows: Iterable[int], payload: bytes) -> Iterator[tuple[int, str]]:
    """Be a worker until the query ends; gives (slot, "") then, or (slot, why it could not be one)."""
    for _ in rows:
        pass
    try:
        import pickle  # noqa: PLC0415

        from tailrace.spark.executor_info import find  # noqa: PLC0415
        from tailrace.worker.main import run_worker  # noqa: PLC0415
    except ImportError as error:
        import sys  # noqa: PLC0415

        yield slot, f"{sys.executable}: {type(error).__name__}: {error}"
        return
    boot = pickle.loads(payload)  # noqa: S301 - part of the closure that the driver shipped
    run_worker(boot, find(slot))
    yield slot, ""
