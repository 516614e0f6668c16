"""What a routing rule is: values in, for each the index of the task that gets it.

The worker asks the rule for a whole batch at once and does the sending itself; a rule knows nothing of transports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tailrace.batch import Batch


class Router(Protocol):
    """Chooses destinations.

    ``several`` tells that a value may go to more than one task, as a tuple of indexes; ``unwraps`` that ``choose`` puts
    other values into the list it is given.
    """

    several: bool
    unwraps: bool

    def choose(self, values: list[Any], origin: Batch) -> list[Any]:
        """Give a task index (or, if ``several``, a tuple of them) for each value.

        ``origin`` holds the roots of the bundles that the values came from, for rules that go by them.
        """
        ...
