"""A job: one simulation or one bench, run as a command of its own, whose JSON holds the figures of several claims.

A process of its own, because a bench starts a Spark and leaves threads behind, and because one that hangs or dies must
not take the other claims with it. ``runner`` starts them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailrace.simulate.scenarios.catalogue import SCENARIOS
from tailrace_bench.registry import NAMES

from .errors import ClaimsFileError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

KINDS = ("simulate", "bench")
_ENTER = "from tailrace.cli.main import main; main()"
#: Runs of each arm of a simulation.
_SEEDS_QUICK, _SEEDS_FULL = 2, 5
_WORDS = (2, 3)


@dataclass(frozen=True)
class Job:
    """``simulate NAME``, ``bench NAME`` or ``bench NAME CASE``."""

    kind: str
    name: str
    only: str = ""

    @classmethod
    def parse(cls, text: str) -> Job:
        """Read it as claims write it."""
        words = text.split()
        if len(words) not in _WORDS or words[0] not in KINDS or (words[0] == "simulate" and len(words) > _WORDS[0]):
            raise ClaimsFileError(
                f"Expected 'simulate NAME', 'bench NAME' or 'bench NAME CASE', found {text!r}.", "Correct the claim."
            )
        return cls(*words)

    @property
    def text(self) -> str:
        """As claims write it."""
        return " ".join(word for word in (self.kind, self.name, self.only) if word)

    @property
    def file_name(self) -> str:
        """The name of its raw results."""
        return "-".join(word for word in (self.kind, self.name, self.only.replace("/", "per")) if word) + ".json"

    def missing(self) -> str | None:
        """Why it cannot be run with this version, if it cannot."""
        known = SCENARIOS if self.kind == "simulate" else NAMES
        return None if self.name in known else f"there is no `tailrace {self.kind} {self.name}` in this version"

    def shown(self, *, quick: bool) -> str:
        """The command as a person would type it."""
        return " ".join(["tailrace", *self._words(quick=quick)])

    def command(self, file: Path, *, quick: bool) -> list[str]:
        """What to start."""
        force = ["--force"] if self.kind == "bench" else []
        return [sys.executable, "-c", _ENTER, *self._words(quick=quick), *force, "--json", str(file)]

    def _words(self, *, quick: bool) -> list[str]:
        words = [self.kind, self.name]
        if self.kind == "simulate":
            words += ["--seeds", str(_SEEDS_QUICK if quick else _SEEDS_FULL)]
        if self.only:
            words += ["--only", self.only]
        return words + (["--quick"] if quick else [])


@dataclass(frozen=True)
class Figure:
    """What was found for a claim."""

    ours: float
    value: float
    baseline_value: float | None = None
    repeats: int = 1
    spread: float | list[float] | None = None


def find(document: Mapping[str, Any], *, case: str, arm: str, metric: str, baseline: str, ratio: bool) -> Figure | None:
    """The figure of a claim in a job's JSON, or nothing."""
    for row in document["rows"]:
        if row["case"] != case:
            continue
        found = (
            _simulated(row, document, arm, metric, baseline, ratio=ratio)
            if "figures" in row
            else _measured(row, metric, baseline, ratio=ratio)
        )
        if found is not None:
            return found
    return None


def _simulated(
    row: Mapping[str, Any], document: Mapping[str, Any], arm: str, metric: str, baseline: str, *, ratio: bool
) -> Figure | None:
    if row["arm"] != arm or metric not in row["figures"]:
        return None
    value = row["figures"][metric]
    if not ratio:
        return Figure(value, value, repeats=document["seeds"])
    found = row["ratios"].get(baseline, {}).get(metric)
    if found is None:
        return None
    base = next(
        (each["figures"].get(metric) for each in document["rows"]
         if each["case"] == row["case"] and each["arm"] == baseline), None
    )  # fmt: skip
    return Figure(found, value, base, document["seeds"])


def _measured(row: Mapping[str, Any], metric: str, baseline: str, *, ratio: bool) -> Figure | None:
    if row["metric"] != metric or (baseline and row["baseline"] != baseline):
        return None
    ours = row["ratio"] if ratio else row["value"]
    if ours is None:
        return None
    return Figure(ours, row["value"], row["baseline_value"], row["repeats"], row["spread"])
