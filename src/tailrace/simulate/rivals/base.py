"""What a rival may do with a stage, and the one that does nothing: Spark as it is, whose tasks wait for their data."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..batches import BatchStage, BatchStageResult


class Rival:
    """Default Spark Streaming: with a locality wait of 3 s a task of a 2 s batch never leaves its data."""

    #: How often ``tick`` is called; 0 is never.
    tick_ms = 0.0
    #: What a second stage waits for besides.
    between_ms = 0.0

    def before(self, stage: BatchStage) -> None:
        """Change what waits where before the stage begins."""

    def idle(self, stage: BatchStage) -> None:
        """Use cores that have nothing to do now."""

    def tick(self, stage: BatchStage) -> None:
        """Look at the stage."""

    def after(self, result: BatchStageResult) -> None:
        """Learn from a stage that is over."""
