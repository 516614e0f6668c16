"""A worker process from start to end: find out where it runs, register, run the loop, tidy up.

Called by each host (Spark's tasks, plain processes) with a ``Boot``; the host decides what process this is in.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import platform
from functools import partial
from typing import TYPE_CHECKING, Any

from tailrace import protocol
from tailrace.checkpoint.objects import read_object
from tailrace.checkpoint.relay.client import RelayedStore
from tailrace.checkpoint.stores import open_store
from tailrace.clock import SystemClock
from tailrace.connect import lookup
from tailrace.program.errors import FencedError, LeaseLostError
from tailrace.topology.operators import TaskContext
from tailrace.transport.connections import Connections
from tailrace.version import __version__
from tailrace.worker.checkpoint.restore import no_store
from tailrace.worker.checkpoint.shadows import ShadowReader
from tailrace.worker.checkpoint.writer import PartWriter
from tailrace.worker.uplink.node_peers import TABLE_NAME, NodePeers, node_name

from .brain import WorkerBrain
from .control import ControlLine
from .loop import WorkerLoop
from .machine_load import MachineLoad
from .user_output import operator_logger, to_driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tailrace.checkpoint.stores.store import ObjectStore
    from tailrace.program.boot import Boot, WorkerLocation
    from tailrace.topology.operators import OperatorSpec

#: Where user code and experiments can read which worker of its query a process is.
SLOT_VARIABLE = "TAILRACE_SLOT"
_LAST_WORDS_S = 2.0
#: Objects made and not freed, per collection of the young ones.
_COLLECT_AFTER = 20_000


def run_worker(boot: Boot, where: WorkerLocation, make_connections: Callable[..., Connections] = Connections) -> None:
    """Join the query and work until it ends; a test may have a connections of its own."""
    os.environ[SLOT_VARIABLE] = str(where.slot)
    tables = lookup.held()
    control = ControlLine(boot.address, boot.secret, where.slot, boot.settings.frame_bytes_max)
    connections = make_connections(where.slot, boot.secret, where.host or control.host, boot.settings)
    node_peers: NodePeers | None = None
    try:
        if boot.settings.link_bytes_per_s:
            node_peers = NodePeers(where.slot, _node(boot, where), connections.endpoint.path_of(TABLE_NAME))
        _work(boot, where, control, connections, node_peers)
    except (LeaseLostError, FencedError) as error:
        logging.getLogger("tailrace.worker").warning("worker %d leaves: %s", where.slot, error)
        raise
    finally:
        if node_peers is not None:
            node_peers.close()
        connections.close()
        control.close()
        # The process may go on to other work, for another query.
        os.environ.pop(SLOT_VARIABLE, None)
        lookup.release(tables)


def _work(
    boot: Boot, where: WorkerLocation, control: ControlLine, connections: Connections, node_peers: NodePeers | None
) -> None:
    attempt = control.register(_registration(where, connections, _node(boot, where), node_peers))
    connections.admitted(attempt)

    def context_of(spec: OperatorSpec, task: int, tasks: int) -> TaskContext:
        def emit_to_driver(values: Any) -> None:
            brain.to_driver(spec.name, task, values)

        logger = operator_logger(brain.log, spec.name, task)
        return TaskContext(spec.name, task, tasks, boot.query, logger, brain.clock, emit_to_driver)

    store = _store_of(boot)
    get = no_store if store is None else partial(read_object, store)
    brain = WorkerBrain(where.slot, attempt, SystemClock(), connections.send, context_of, node_peers, get)
    brain.machine_load = MachineLoad().since_last
    connections.watch_control(control)
    connections.control_ready = True  # the first orders may have come along with the welcome
    writer = None if store is None else PartWriter(store, connections.wakeup)
    reader = ShadowReader(connections.wakeup) if boot.checkpoint is not None and boot.checkpoint.standby else None
    loop = WorkerLoop(brain, connections, control, boot.settings, writer, reader)
    try:
        with _calm_collector(), to_driver(loop.at_work, brain.log):
            try:
                loop.run()
            finally:
                brain.close(loop.left_behind)
    except (LeaseLostError, FencedError):
        raise
    except BaseException as error:  # SystemExit of a user's source, too
        # A mistake would come again after a restart: end the query and say what it was.
        brain.fail(error)
        raise
    finally:
        for each in (writer, reader):
            if each is not None:
                each.close()
        with contextlib.suppress(OSError):  # the coordinator is gone
            while brain.control_out:
                control.send(brain.control_out.popleft())
            control.flush(_LAST_WORDS_S)


def _store_of(boot: Boot) -> ObjectStore | None:
    """The store of the query's checkpoints, reached by way of the driver where that is the only way."""
    if boot.checkpoint is None:
        return None
    if boot.relay is not None:
        return RelayedStore(os.fspath(boot.checkpoint.path), boot.relay, boot.secret)
    return open_store(boot.checkpoint.path, boot.checkpoint.options)


@contextlib.contextmanager
def _calm_collector() -> Iterator[None]:
    """Look for reference cycles less often: tuples under way come and go by the thousand and form none."""
    before = gc.get_threshold()
    gc.freeze()  # what was there before the query needs no looking at
    gc.set_threshold(_COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)  # the process may go on to other work
        gc.unfreeze()


def _node(boot: Boot, where: WorkerLocation) -> str:
    return node_name(boot.settings.node_is, where.executor, where.slot)


def _registration(
    where: WorkerLocation, connections: Connections, node: str = "", node_peers: NodePeers | None = None
) -> protocol.Register:
    endpoint = connections.endpoint
    peer = protocol.Peer(
        slot=where.slot,
        attempt=0,
        host=where.host,
        tcp=connections.tcp_address,
        uds=endpoint.uds_path,
        ring=endpoint.ring_path,
        probe_path=endpoint.probe.path,
        probe_nonce=endpoint.probe.nonce,
        why_no_ring=endpoint.why_no_ring,
        node=node,
        uplink_table="" if node_peers is None else node_peers.path,
    )
    return protocol.Register(
        where.slot, where.launch, os.getpid(), where.executor, peer, __version__, platform.python_version()
    )
