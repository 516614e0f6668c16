"""The coordinator's part in switching policies while the query runs; ``autopilot`` and users choose.

    switch   ``Switch`` to all -> ``Switched`` by all, decided: workers need not switch at the same moment

It takes its turn like every operation, because tasks that move must keep queues of their own until they have arrived.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.coordinator.operations.instructions import TellPolicies
from tailrace.coordinator.operations.operation import DONE, Operation, OperationState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.coordinator.operations.cluster import ClusterView
    from tailrace.coordinator.operations.instructions import Instruction


class PolicySwitch(Operation):
    """The newest choice of policies, told to everyone."""

    single = True

    def __init__(self, cluster: ClusterView, why: str) -> None:
        super().__init__(cluster, why)
        limit_s = cluster.program.settings.register_timeout_s
        self._states = {"switch": OperationState(self._switch, DONE, limit_s, decided=True)}

    @property
    def states(self) -> dict[str, OperationState]:
        """How it goes."""
        return self._states

    def begin(self) -> str:
        """Begin by telling."""
        return "switch"

    def _switch(self) -> Iterator[Instruction]:
        self.awaited = self.everyone("switched")
        yield TellPolicies(self.epoch)
