"""The placement policies by name, as the settings, the command line and the runtime ask for them.

A new policy is one file with a ``place`` method and one line in ``POLICIES``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailrace.errors import nearest

from .auto import Auto
from .by_operator import ByOperator
from .errors import UnknownPolicyError
from .metis import Metis
from .round_robin import RoundRobinPlacement
from .stromax import StroMax
from .turbostream import TurboStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from .policy import PlacementPolicy

POLICIES: dict[str, Callable[..., PlacementPolicy]] = {
    "round_robin": RoundRobinPlacement,
    "stromax": StroMax,
    "turbostream": TurboStream,
    "metis": Metis,
    "auto": Auto,
    "by_operator": ByOperator,
}


def balance_bound(policy: PlacementPolicy) -> float | None:
    """How much more than its share a node may carry, as a part of that share; None where a policy has no bound."""
    if isinstance(policy, StroMax):
        return policy.theta
    return policy.imbalance_max if isinstance(policy, TurboStream | Metis | Auto) else None


def by_name(name: str, **options: Any) -> PlacementPolicy:
    """Build the policy of this name with its options."""
    try:
        make = POLICIES[name]
    except KeyError:
        raise UnknownPolicyError(
            f"Expected a placement policy among {', '.join(POLICIES)}, found {name!r}.", nearest(name, POLICIES)
        ) from None
    try:
        return make(**options)
    except TypeError as error:
        raise UnknownPolicyError(
            f"Placement policy {name!r} does not take these options: {error}.", "See docs/placement.md."
        ) from error
