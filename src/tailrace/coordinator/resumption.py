"""A query that begins with a checkpoint: opens the store, finds the last durable epoch and sees that it fits.

Called once on the driver when a query is made, before any worker starts. Blocking: it reads from the store.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from tailrace.checkpoint.errors import (
    CheckpointCorruptError,
    CheckpointNeededError,
    ForeignCheckpointError,
    NotReplayableError,
    TopologyChangedError,
)
from tailrace.checkpoint.log import ManifestLog
from tailrace.checkpoint.objects import faults_of
from tailrace.checkpoint.relay.server import StoreRelay
from tailrace.checkpoint.stores import open_store
from tailrace.errors import ConfigError
from tailrace.topology.contracts import Transactional, delivery_of

from .savepoints.fitting import differences, other_routes

if TYPE_CHECKING:
    from tailrace.checkpoint.log import Newest
    from tailrace.checkpoint.manifest import Manifest
    from tailrace.checkpoint.savepoint import Savepoint
    from tailrace.checkpoint.settings import Checkpoint
    from tailrace.config import Policy
    from tailrace.coordinator.interfaces import Host
    from tailrace.program.program import Program
    from tailrace.topology.graph import Topology
    from tailrace.topology.operators import OperatorSpec

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


def resume(
    log: ManifestLog, program: Program, partitions: list[list[Any]], *, accept_older: bool = False
) -> Manifest | None:
    """Take the last durable epoch over, if there is one; raises where it does not fit the query.

    An epoch that is not whole is passed over and told. Where a sink publishes with epochs, what it has published since
    the one before would come again, so that has to be asked for.
    """

    def check(manifest: Manifest) -> None:
        check_fits(manifest, program, partitions)
        for fault in faults_of(log.store, manifest):
            raise fault

    found = log.newest(check)
    if found.broken:
        _tell_broken(found, program, accept_older=accept_older)
    return log.take_over(found, check)


def _tell_broken(found: Newest, program: Program, *, accept_older: bool) -> None:
    """Warn of what was passed over, and of which epoch is used instead; raises if there is none, or none may be."""
    why = found.broken[0].message
    if found.manifest is None:
        raise CheckpointCorruptError(
            f"No epoch of the checkpoint is whole: {why}",
            "Restore the file, or begin with another folder; tailrace state PATH --check lists what is broken.",
        )
    epoch = found.manifest.epoch
    published = [spec.name for stage in program.plan.stages for spec in stage.operators if publishes(spec)]
    if published and not accept_older:
        raise CheckpointCorruptError(
            f"{why} Epoch {epoch} is whole, but {', '.join(map(repr, published))} may have published what came after "
            "it, and would publish that again.",
            "Restore the file; or take out of the target what is newer than that epoch, and start with "
            "tr.Checkpoint(..., accept_older=True).",
        )
    for error in found.broken:
        _log.warning("query %s: %s Epoch %d is used instead.", program.plan.name, error.message, epoch)


def publishes(spec: OperatorSpec) -> bool:
    """Whether a sink publishes with epochs: then going back further than the last one would give things twice."""
    sink = spec.fn
    # What sinks on the driver have, such as collect, is part of each epoch and goes back with it.
    return isinstance(sink, Transactional) and delivery_of(sink, durable=True) == "transactional"


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
    if routed := other_routes(manifest, program):
        raise TopologyChangedError(
            f"Under this policy tuples that were in flight would go other ways when they are sent again, and could be "
            f"applied twice: {', '.join(routed)}.",
            "Resume with the policy that wrote the checkpoint; stop that with query.stop(savepoint=PATH) and begin "
            "with tr.start(..., restore=PATH) and an empty checkpoint to change it.",
        )
