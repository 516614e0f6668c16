"""What is said to read the state of a running query: a question to the worker that has it, and the answer."""

from __future__ import annotations

import msgspec


class AskState(msgspec.Struct, tag=True):
    """Coordinator: tell the state of this key, or of so many keys, of a task of yours."""

    serial: int
    stage: int
    task: int
    operator: str
    #: The key, pickled; empty where some keys are asked for, whichever they are.
    key: bytes = b""
    limit: int = 0


class StateValues(msgspec.Struct, tag=True, frozen=True):
    """Worker: this was it, between two pieces of the task's work."""

    serial: int
    #: Whether the task is here.
    here: bool
    #: Pairs of key and state, pickled; a key without a state is left out.
    values: bytes = b""
    #: Why the state cannot be told.
    reason: str = ""
