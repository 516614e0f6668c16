"""Reads ``--policy k=v`` and ``--set k=v`` into the typed configuration, which refuses what it does not know."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tailrace.config import Policy, Settings, from_mapping
from tailrace.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

_WHOLE = re.compile(r"[0-9]{1,18}")
_DECIMAL = re.compile(r"[0-9]{1,18}\.[0-9]{1,18}")


def policy_from(texts: Sequence[str]) -> Policy:
    """Make a policy from texts such as ``placement=metis``; what they leave open is as ``tr.start`` has it."""
    return Policy.auto(**dict(_pair(text, "--policy", "replay=fixed:10s") for text in texts))


def settings_from(texts: Sequence[str]) -> Settings:
    """Make settings from texts such as ``max_pending=1000``."""
    pairs = [_pair(text, "--set", "max_pending=1000") for text in texts]
    return from_mapping(Settings, {name: _value(name, text) for name, text in pairs})


def _pair(text: str, option: str, example: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ConfigError(f"{option} takes KEY=VALUE, found {text!r}.", f"For example {option} {example}.")
    return name.strip(), value.strip()


def _value(name: str, text: str) -> str | int | float:
    """Numbers as numbers; the rest stays text, for the settings to refuse."""
    if _WHOLE.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text) and isinstance(getattr(Settings, name, None), float):
        return float(text)
    return text
