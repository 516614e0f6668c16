"""A query that begins with a checkpoint: opens the store, finds the last durable epoch and sees that it fits.

Called once on the driver when a query is made, before any worker starts. Blocking: it reads from the store.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from tailrace.checkpoint.errors import (
    CheckpointNeededError,
    ForeignCheckpointError,
    NotReplayableError,
    TopologyChangedError,
)
from tailrace.checkpoint.log import ManifestLog
from tailrace.checkpoint.relay.server import StoreRelay
from tailrace.checkpoint.stores import open_store
from tailrace.errors import ConfigError

from .savepoints.fitting import differences

if TYPE_CHECKING:
    from tailrace.checkpoint.manifest import Manifest
    from tailrace.checkpoint.savepoint import Savepoint
    from tailrace.checkpoint.settings import Checkpoint
    from tailrace.config import Policy
    from tailrace.coordinator.interfaces import Host
    from tailrace.program.program import Program
    from tailrace.topology.graph import Topology

_log = logging.getLogger("tailrace")


def check_durable(flow: Topology, policy: Policy) -> None:
    """Refuse what cannot be recovered, before anything is started."""
    if not policy.tracked:
        raise ConfigError(
            "A query with checkpoints follows its tuples, to know what must be sent again; replay is 'off'.",
            "Leave replay as it is, or start without a checkpoint.",
        )
    for spec in flow.operators.values():
        if spec.kind == "source" and not spec.fn.movable:
            raise NotReplayableError(
                f"The source {spec.name!r} ({spec.fn.label}) cannot be read again from an offset, so that nothing of "
                "it can be recovered.",
                "Read from files or another source that keeps its records, or start without a checkpoint.",
            )


def check_restore(checkpoint: Checkpoint | None, restore: Savepoint | None) -> None:
    """Refuse a savepoint that is to be restored into nothing."""
    if restore is not None and checkpoint is None:
        raise CheckpointNeededError(
            "A savepoint is restored into a checkpoint, which the query goes on from; there is none.",
            "Give one: tr.start(flow, checkpoint=PATH, restore=SAVEPOINT).",
        )


def open_log(checkpoint: Checkpoint, spark: Any) -> ManifestLog:
    """Open the log of a query's manifests; ``spark`` is the session whose file systems count too, or None."""
    return ManifestLog(open_store(checkpoint.path, checkpoint.options, spark))


def relay_of(log: ManifestLog, host: Host, secret: bytes) -> StoreRelay | None:
    """Where workers cannot reach the store themselves: the way to it by the driver."""
    return None if log.store.reachable_from_workers else StoreRelay(log.store, host.bind_host, secret)


def resume(log: ManifestLog, program: Program, partitions: list[list[Any]]) -> Manifest | None:
    """Take the last durable epoch over, if there is one; raises where it does not fit the query."""
    found = log.newest()
    for error in found.broken:
        used = "none is left" if found.manifest is None else f"epoch {found.manifest.epoch} is used instead"
        _log.warning("query %s: %s %s", program.plan.name, error.message, used)
    if found.manifest is not None:
        check_fits(found.manifest, program, partitions)
    return log.take_over(found)


def check_fits(manifest: Manifest, program: Program, partitions: list[list[Any]]) -> None:
    """Refuse a checkpoint of another query, or of other operators."""
    plan = program.plan
    if manifest.query != plan.name:
        raise ForeignCheckpointError(
            f"The checkpoint is of query {manifest.query!r}; this one is {plan.name!r}.",
            "Give every query a folder of its own.",
        )
    if differs := differences(manifest, program, partitions):
        raise TopologyChangedError(
            f"The checkpoint was written by another topology: {', '.join(differs)}.",
            "Resume with the topology and inputs that wrote it; stop that with query.stop(savepoint=PATH) and begin "
            "with tr.start(..., restore=PATH) and an empty checkpoint to change them.",
        )
