"""The arms of the benchmark, its parts, and how long a run is. Plain data, read by every other module of the bench."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.lever.plans import DEFAULT_PLAN
from tailrace.lever.session import speculation_settings

from .cluster import HOSTS
from .workloads import CASES, BatchLoad

INTERVALS_S = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0)
PAPER_SPECULATION = {
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.0",
    "spark.speculation.minTaskRuntime": "100ms",
}
NO_SPECULATION = {"spark.speculation.minTaskRuntime": "1h"}
"""Speculation is on for the whole application, because Spark decides that at its start; no task runs for this long."""


@dataclass(frozen=True, slots=True)
class LeverArm:
    """One way to run a case."""

    name: str
    plan: str = ""
    state: bool = True
    """Whether the plan also places state."""
    speculation: bool = False
    partitions_per_core: int = 1

    @property
    def live(self) -> dict[str, str]:
        """Settings that are read when a stage starts."""
        if not self.speculation:
            return NO_SPECULATION
        return speculation_settings() if self.plan else PAPER_SPECULATION


ARMS = (
    LeverArm("default"),
    LeverArm("even", plan="even"),
    LeverArm("small_tasks", partitions_per_core=8),
    LeverArm("speculation", speculation=True),
    LeverArm("lever", plan="lever"),
    LeverArm("proportional", plan="proportional"),
    LeverArm("damped", plan="damped"),
    LeverArm("input_only", plan=DEFAULT_PLAN, state=False),
    LeverArm("lever_speculation", plan=DEFAULT_PLAN, speculation=True),
)

PARTS = (*CASES, "no_straggler", "convergence", "intervals", "helpers")
"""What can be asked for alone: the cases with a slow executor, the one without, and the studies."""


@dataclass(frozen=True, slots=True)
class Size:
    """How long and how large a run is."""

    load: BatchLoad
    rounds: int
    warm: int
    batches: int
    parts: tuple[str, ...]
    warm_up: int = 3
    """Batches of an arm before its first round: the first is even, the next let a plan settle."""
    before: int = 6
    after: int = 10
    """Batches before and after the change in a study of convergence."""
    lengths_s: tuple[float, ...] = INTERVALS_S
    arms: tuple[LeverArm, ...] = ARMS


FULL = Size(BatchLoad(2000, 1400, len(HOSTS), 2.0), rounds=5, warm=1, batches=4, parts=PARTS)
QUICK = Size(
    BatchLoad(800, 3200, len(HOSTS), 1.0),
    rounds=5,
    warm=0,
    batches=2,
    parts=("wordcount", "helpers"),
    warm_up=2,
    arms=tuple(arm for arm in ARMS if arm.name != "input_only"),
)
"""Half the trigger interval, fewer and dearer records, few batches; everything else as in the full run."""
