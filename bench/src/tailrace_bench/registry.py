"""All benches by name, each in the module that it is made in. A module is loaded when its bench is asked for.

The command line and the claims of the papers look benches up here; most of their modules ask for Spark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tailrace.errors import nearest

from .errors import UnknownBenchError

if TYPE_CHECKING:
    from .bench import Bench

#: Name -> module and what the bench is called in it.
_MADE_IN = {
    "wordcount": "comparison.run:WORDCOUNT",
    "exclaim": "comparison.run:EXCLAIM",
    "metrics": "metrics:BENCH",
    "scale": "scale.run:BENCH",
    "ring": "ring.run:BENCH",
    "dataframe": "dataframe.run:BENCH",
    "hone": "tails.hone:BENCH",
    "sharedqueue": "tails.sharedqueue:BENCH",
    "balance": "tails.balance:BENCH",
    "timeout": "tails.timeout:BENCH",
    "auto": "tails.auto:BENCH",
    "truth": "tails.truth:BENCH",
    "ablation": "tails.ablation:BENCH",
    "migrate": "migrate.run:BENCH",
    "state": "state.run:BENCH",
    "topologies": "topologies.run:BENCH",
    "placement": "placement:BENCH",
    "lever": "lever.main:BENCH",
}
NAMES = tuple(_MADE_IN)


def check_name(name: str) -> None:
    """Refuse a name that is no bench's."""
    if name not in _MADE_IN:
        raise UnknownBenchError(f"There is no bench called {name!r}.", nearest(name, NAMES))


def find(name: str) -> Bench:
    """Load a bench."""
    check_name(name)
    module, _, attribute = _MADE_IN[name].partition(":")
    found: Bench = getattr(importlib.import_module(f"{__package__}.{module}"), attribute)
    return found
