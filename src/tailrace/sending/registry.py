"""Gates by the names that users write in ``Policy(sending=...)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import ConfigError, nearest

from .fifo import Fifo
from .lbf import LargestBacklogFirst
from .round_robin import IdlingRoundRobin, RoundRobin

if TYPE_CHECKING:
    from .gate import Gate, GateSettings

#: What the runtime offers.
GATES = {"fifo": Fifo, "round_robin": RoundRobin, "lbf": LargestBacklogFirst}
#: What the simulator offers besides.
SIMULATED_GATES = GATES | {"idling_round_robin": IdlingRoundRobin}


def gate_by_name(name: str, settings: GateSettings | None = None) -> Gate:
    """Make a gate, or say which one was meant."""
    if name not in SIMULATED_GATES:
        raise ConfigError(
            f"Policy sending must be one of {', '.join(GATES)}; found {name!r}.", nearest(name, SIMULATED_GATES)
        )
    return SIMULATED_GATES[name](settings)
