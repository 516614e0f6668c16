"""How often a query is checkpointed, where to, and how often that may fail. Plain data, checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tailrace.errors import ConfigError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a query's state is made durable."""

    #: A folder that driver and workers see, or a URI of a store.
    path: str | os.PathLike[str]
    every_s: float = 1.0
    #: Durable epochs that are kept.
    keep: int = 3
    #: Checkpoints in a row that may fail before the query does.
    tolerated_failures: int = 10
    #: How long a checkpoint may take before it is given up.
    timeout_s: float = 60.0
    #: Other workers that hold each task's state as of the last epoch, to go on at once when its worker is lost: 0 or 1.
    standby: int = 0
    #: Whether to go on from an older epoch when the newest is broken, although sinks have published what came after.
    accept_older: bool = False
    #: Objects that a task's state is put together from before some of them are merged in the background.
    chain_max: int = 32
    #: What the store needs to know beside its address; kept out of every message.
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name, least in (("every_s", 0.0), ("timeout_s", 0.0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > least:
                raise ConfigError(f"Checkpoint {name} must be a number of seconds above 0; found {value!r}.")
        if isinstance(self.standby, bool) or self.standby not in {0, 1}:
            raise ConfigError(f"Checkpoint standby must be 0 or 1; found {self.standby!r}.")
        for name, least in (("keep", 1), ("tolerated_failures", 0), ("chain_max", 3)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ConfigError(f"Checkpoint {name} must be a whole number of at least {least}; found {value!r}.")
