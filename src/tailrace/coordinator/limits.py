"""How long a query may take to start, a worker to be heard and to come back, and a drain to end.

Asked by the coordinator's brain whenever time has passed; what takes too long ends the query by name. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.coordinator import errors
from tailrace.coordinator.reporting.open_work import still_open
from tailrace.coordinator.reporting.stuck import named, not_opened, told_of

if TYPE_CHECKING:
    from tailrace.coordinator.brain import CoordinatorBrain

_NS_PER_S = 1_000_000_000


def check_limits(brain: CoordinatorBrain, now_ns: int) -> None:
    """End the query, or give a worker up, where a time limit has passed."""
    settings = brain.program.settings
    limit_ns = int(settings.register_timeout_s * _NS_PER_S)
    if brain.state in {"registering", "deploying"} and now_ns - brain.started_ns > limit_ns:
        brain.fail(
            errors.StartError(
                f"{brain.membership.workers} workers were expected within {settings.register_timeout_s:.0f} s; "
                f"{len(brain.members)} registered.",
                "Ask for fewer workers, give the application more cores, or raise register_timeout_s; "
                "executors must be able to reach the driver's address.",
            )
            if brain.state == "registering"
            else not_opened(brain.members, settings.register_timeout_s)
        )
    for slot, member in brain.members.items():
        # Until it runs a worker has nothing to say: it waits for others, or for a user's open().
        reports = member.open and brain.state == "running"
        patience_ns = 2 * settings.lease_s * _NS_PER_S if reports else limit_ns
        if member.alive and now_ns - member.heard_ns > patience_ns:
            brain.on_gone(member.connection, now_ns)
        if not member.alive and now_ns - member.lost_ns > limit_ns:
            brain.fail(
                errors.WorkerLostError(
                    f"Worker {slot} (executor {member.register.executor} on {member.peer.host}) was lost and "
                    f"did not come back within {settings.register_timeout_s:.0f} s.{told_of(member)}",
                    "Look at the executor's log; spark.task.maxFailures may have been reached, and on local[n] "
                    "there are no restarts.",
                )
            )
    since_ns = brain.draining_since_ns
    if since_ns is not None and now_ns - since_ns > settings.drain_timeout_s * _NS_PER_S:
        brain.fail(
            errors.DrainTimeoutError(
                f"Open tuples did not come to an end within {settings.drain_timeout_s:.0f} s of stopping: "
                f"{still_open(brain)}.{named(brain.members)}",
                "Call stop(now=True) to leave them, or raise drain_timeout_s.",
            )
        )
