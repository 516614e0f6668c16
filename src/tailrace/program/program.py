"""The program of a query: what the coordinator makes of a topology and every worker runs.

Made by ``coordinator.deployment``, pickled into ``protocol.Deploy``, read by both sides; plain data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.routing import BALANCED

if TYPE_CHECKING:
    from tailrace.config import Policy, Settings
    from tailrace.topology.plan import Plan


@dataclass(frozen=True)
class Program:
    """What every worker of a query runs; ``switched`` are the steps of the policy that may change while it does."""

    plan: Plan
    policy: Policy
    settings: Settings
    switched: frozenset[str] = frozenset()
    #: Whether the query has checkpoints: then every tuple hangs on a root, and deduplicators forget by cuts.
    durable: bool = False

    @property
    def balances(self) -> bool:
        """Whether a balancer shares free edges out, or may do so later on: then nothing else may."""
        return bool(self.switched) or self.policy.routing in BALANCED
