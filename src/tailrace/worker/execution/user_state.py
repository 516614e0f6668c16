"""What a user's object remembers beside state by key: told by its ``snapshot()``, or all its attributes.

``steps`` has one for each operator written as a class and each sink; snapshots of tasks ask it. Any class with
``process`` may be an operator, so what it can tell of itself is found by what it is, method by method.
"""

from __future__ import annotations

from typing import Any

from tailrace.topology.operators import HasRestore, HasSnapshot, attributes_of


class UserState:
    """The state of one user's object."""

    def __init__(self, user: Any) -> None:
        self._user = user

    def snapshot(self) -> Any:
        """Tell what must go along with the task."""
        return self._user.snapshot() if isinstance(self._user, HasSnapshot) else attributes_of(self._user)

    def restore(self, state: Any) -> None:
        """Let the object go on from there."""
        if isinstance(self._user, HasRestore):
            self._user.restore(state)
        else:
            vars(self._user).update(state)
