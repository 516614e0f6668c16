"""An operation as one worker takes part in it: the base of all kinds, and what a kind may touch.

``Operations`` gives an operation the coordinator's orders and a turn per round; the operation answers with messages
to the coordinator. A checkpoint (cut the tasks, write the parts, say so) will be a kind beside those that are here; a
recovery needs none, because a worker goes back by making another ``Deployment``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tailrace import protocol
from tailrace.worker.execution.scheduler import IDLE_US

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.worker.build import Site
    from tailrace.worker.exchange.acks import Acknowledger
    from tailrace.worker.exchange.delivery import Delivery
    from tailrace.worker.exchange.nearness import Nearness
    from tailrace.worker.execution.task import Task
    from tailrace.worker.operations.channel_control import ChannelControl
    from tailrace.worker.operations.policy_switch import PresentPolicy
    from tailrace.worker.worker_state import WorkerState

#: What a coordinator says about an operation that has begun.
Order = (
    protocol.Pause | protocol.Relocate | protocol.GoOn | protocol.HoldSources | protocol.PauseKeys | protocol.Regroup
    | protocol.Switch
)  # fmt: skip


@dataclass(frozen=True)
class Scope:
    """What operations may touch: the parts of a worker's deployed half that they need."""

    worker: WorkerState
    site: Site
    acks: Acknowledger
    delivery: Delivery
    channels: ChannelControl
    nearness: Nearness
    policies: PresentPolicy
    #: Called when tasks have come or gone.
    tasks_changed: Callable[[], None]
    #: Told of every task that has come with its state.
    adopt: Callable[[Task], None]
    #: Tasks that are gone, until the loop has ended their threads.
    gone: deque[Task] = field(default_factory=deque)
    #: Offsets of this worker's partitions below which roots are cut the old way, until those are complete.
    older_roots: dict[int, int] = field(default_factory=dict)


class Participant(ABC):
    """One operation at one worker; ``state`` is one of the names its kind lists in its docstring, or ``over``."""

    def __init__(self, scope: Scope, epoch: int) -> None:
        self.scope = scope
        self.epoch = epoch
        self.state = "begun"
        #: Whether the coordinator was told that it cannot be carried out; then it only waits to be undone.
        self.failed = False

    @property
    def over(self) -> bool:
        """Whether this worker has nothing more to do for it, whatever others do."""
        return self.state == "over"

    @property
    def wait_us(self) -> int:
        """How soon it wants its next turn, if nothing comes before."""
        return IDLE_US

    @abstractmethod
    def on_order(self, order: Order) -> None:
        """Act on what the coordinator says about it."""

    def progress(self) -> None:  # noqa: B027 - a kind that is over at once has no turns
        """Take it as far as it can be taken now; called once per round. Whatever is raised fails it."""

    @abstractmethod
    def undo(self) -> None:
        """Go on as before: everything that it has changed here is changed back."""

    def tell(self, message: protocol.FromWorker) -> None:
        """Tell the coordinator."""
        self.scope.worker.control_out.append(message)

    def fail(self, error: Exception) -> None:
        """Tell the coordinator why it cannot be carried out; the first reason counts."""
        if not self.failed:
            self.failed = True
            text = getattr(error, "message", f"{type(error).__name__}: {error}")
            self.tell(protocol.OperationFailed(self.epoch, text, getattr(error, "hint", "")))
