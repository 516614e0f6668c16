"""The scenarios by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tailrace.errors import nearest

from ..errors import UnknownScenarioError
from . import ablation, checks, du_gupta, hone, lever, stromax, turbostream

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..comparison import SimulationReport


class Scenario(Protocol):
    """Runs and reports; the docstring says what it shows."""

    __doc__: str | None

    def __call__(self, *, quick: bool, seeds: int, progress: Callable[[str, float], None]) -> SimulationReport:
        """Run everything."""
        ...


SCENARIOS: dict[str, Scenario] = {
    "mmc": checks.mmc,
    "slots": hone.slots,
    "hone": hone.hone,
    "sharedqueue": du_gupta.sharedqueue,
    "balance": du_gupta.balance,
    "timeout": du_gupta.timeout,
    "auto": du_gupta.auto,
    "lever": lever.lever,
    "stromax": stromax.stromax,
    "turbostream": turbostream.turbostream,
    "ablation": ablation.ablation,
    "large": checks.large,
}


def by_name(name: str) -> Scenario:
    """Find a scenario, or say which one was meant."""
    if name not in SCENARIOS:
        raise UnknownScenarioError(
            f"A scenario is one of {', '.join(SCENARIOS)}; found {name!r}.", nearest(name, SCENARIOS)
        )
    return SCENARIOS[name]
