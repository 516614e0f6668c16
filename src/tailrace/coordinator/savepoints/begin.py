"""Puts a savepoint into a checkpoint that is empty: its objects, or what they become, then the first entry of the log.

Called once on the driver when a query is made, before it resumes from the checkpoint as from any other. Blocking: it
reads from one store and writes to another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.checkpoint.errors import SavepointConflictError
from tailrace.checkpoint.savepoint import copy_objects, find_savepoint

from .fitting import check_change
from .regroup import regrouped

if TYPE_CHECKING:
    from tailrace.checkpoint.log import ManifestLog
    from tailrace.checkpoint.savepoint import FoundSavepoint, Savepoint
    from tailrace.program.program import Program


def begin_from(restore: Savepoint, log: ManifestLog, program: Program, partitions: list[list[Any]], spark: Any) -> None:
    """Let a checkpoint begin from a savepoint, unless it has done so before."""
    found, there = find_savepoint(restore, spark), log.newest()
    if there.number:
        if there.manifest is not None and there.manifest.restored_from == found.digest:
            return  # this start is not the first: go on from the checkpoint
        raise SavepointConflictError(
            f"The checkpoint at {log.store.address} has a history of its own, which did not begin from the savepoint "
            f"at {found.store.address}.",
            "Give checkpoint= an empty folder to begin from the savepoint, or leave restore= out to go on.",
        )
    # What a sink on the driver was given belongs to the query that was saved.
    manifest = msgspec.structs.replace(found.manifest, driver=())
    if check_change(restore, found, program, partitions):
        manifest = regrouped(found, log.store, restore, program, partitions)
    else:
        copy_objects(found.store, manifest, log.store)
    log.append(_first(manifest, found, program))


def _first(manifest: Any, found: FoundSavepoint, program: Program) -> Any:
    """The first entry of a checkpoint that begins from a savepoint."""
    return msgspec.structs.replace(
        manifest,
        number=1,
        kind="savepoint",
        query=program.plan.name,
        restored_from=found.digest,
    )
