"""What users are told of checkpoints and recoveries: rows of ``lastProgress``, lines of ``explain()``.

``Checkpoints`` notes here how each epoch went; the rest is read from the coordinator's brain. Queries without
checkpoints have the same rows with nothing in them, so that whoever watches needs no case of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailrace.coordinator.brain import CoordinatorBrain

_NS_PER_MS = 1_000_000
_NS_PER_S = 1_000_000_000
#: The steps of an epoch, in order.
STEPS = ("marks", "prepare", "cut", "publish")


class EpochFigures:
    """How the epochs of one query went."""

    def __init__(self) -> None:
        self.durable = 0
        self.failures = 0
        self.failures_in_a_row = 0
        #: Of the last that is durable: milliseconds per step, bytes written, and when.
        self.took_ms: dict[str, float] = {}
        self.size_bytes = 0
        self.durable_ns: int | None = None
        self._entered: dict[str, int] = {}
        self._written_bytes = 0

    def entered(self, step: str, now_ns: int) -> None:
        """An epoch comes to a step."""
        if step == STEPS[0]:
            self._entered, self._written_bytes = {}, 0
        self._entered[step] = now_ns

    def written(self, size_bytes: int) -> None:
        """A part of it was written."""
        self._written_bytes += size_bytes

    def published(self, now_ns: int) -> None:
        """It is durable."""
        ends = [*list(self._entered.values())[1:], now_ns]
        self.took_ms = {
            step: (end - since) / _NS_PER_MS for (step, since), end in zip(self._entered.items(), ends, strict=True)
        }
        self.size_bytes, self.durable_ns = self._written_bytes, now_ns
        self.durable += 1
        self.failures_in_a_row = 0

    def failed(self) -> None:
        """It was given up."""
        self.failures += 1
        self.failures_in_a_row += 1

    def age_s(self, now_ns: int) -> float | None:
        """For how long nothing has become durable."""
        return None if self.durable_ns is None else round(max(0, now_ns - self.durable_ns) / _NS_PER_S, 3)


def checkpoint_row(brain: CoordinatorBrain, now_ns: int) -> dict[str, Any]:
    """The row of ``lastProgress`` about checkpoints."""
    checkpoints = brain.checkpoints
    figures = EpochFigures() if checkpoints is None else checkpoints.figures
    durable = None if checkpoints is None else checkpoints.durable
    standbys = brain.recovery.standbys
    return {
        "epoch": 0 if durable is None else durable.epoch,
        "durable": figures.durable,
        "age_s": figures.age_s(now_ns),
        "duration_ms": round(sum(figures.took_ms.values()), 3),
        **{f"{step}_ms": round(figures.took_ms.get(step, 0.0), 3) for step in STEPS},
        "size_bytes": figures.size_bytes,
        "failures": figures.failures,
        "failuresInARow": figures.failures_in_a_row,
        "standbys": [
            {"of": ward, "worker": slot, "epoch": standbys.reached.get(slot, 0)}
            for ward, slot in sorted(standbys.of.items())
        ]
        if standbys is not None
        else [],
    }


def recovery_row(brain: CoordinatorBrain) -> dict[str, Any]:
    """The row of ``lastProgress`` about recoveries."""
    recovery = brain.recovery
    over = [each for each in recovery.told if each.took_ms >= 0]
    return {"count": recovery.count, "returns": recovery.returns, "newest": [each.row() for each in over]}


def explained_durability(brain: CoordinatorBrain) -> list[str]:
    """What ``explain()`` says of checkpoints, standbys and recoveries."""
    checkpoints, recovery = brain.checkpoints, brain.recovery
    if checkpoints is None:
        return []
    figures, durable = checkpoints.figures, checkpoints.durable
    took_ms = sum(figures.took_ms.values())
    lines = ["", f"Checkpoints, every {checkpoints.every_s:g} s"]
    lines.append(
        "  none is durable yet"
        if durable is None
        else f"  epoch {durable.epoch} is durable: {figures.size_bytes:,} bytes in {took_ms:.0f} ms"
    )
    if figures.failures:
        lines.append(f"  {figures.failures} failed, {figures.failures_in_a_row} of them in a row just now")
    if recovery.standbys is not None:
        lines += _standbys(brain, recovery.standbys.of, recovery.standbys.displaced)
    if recovery.count + recovery.returns:
        lines += ["", f"Recoveries ({recovery.count} of lost workers, {recovery.returns} to let tasks go back)"]
    for each in recovery.told:
        ways = ", ".join(f"{tasks} by {way}" for way, tasks in each.restored.items() if tasks) or "none with state"
        took = f"took {each.took_ms:.0f} ms" if each.took_ms >= 0 else "is under way"
        lines.append(f"  {each.why}: back to epoch {each.epoch}, {took}; tasks restored: {ways}")
    return lines


def _standbys(brain: CoordinatorBrain, chosen: dict[int, int], displaced: dict[tuple[int, int], int]) -> list[str]:
    lines = []
    for ward, slot in sorted(chosen.items()):
        here, there = brain.members.get(ward), brain.members.get(slot)
        same = here is not None and there is not None and here.register.executor == there.register.executor
        lines.append(
            f"  worker {slot} stands by for worker {ward}"
            + (", on the same executor: there is no other" if same else "")
        )
    for (stage, task), before in sorted(displaced.items()):
        name = brain.program.plan.stages[stage].head.name
        lines.append(f"  {name}[{task}] is at worker {brain.placement[stage][task]} until worker {before} is back")
    return lines or ["  no worker stands by for another yet"]
