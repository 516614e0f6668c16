"""Lets tasks take from one queue: when the worker is built, as the policy has it, or at run time, and back again.

Called by the worker, and by whoever changes policies while the query runs. Touches the tasks' inboxes and the worker's
tables of channels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.program.channels import handout_channel
from tailrace.receiving.inbox import Inbox
from tailrace.receiving.shared import may_share, shares
from tailrace.receiving.shared_inbox import SharedInbox
from tailrace.sending.outbox import Outbox
from tailrace.worker.build import inbox_of
from tailrace.worker.exchange.shared_queues import Group, RemoteConsumer

if TYPE_CHECKING:
    from tailrace.receiving.inbox import Channel
    from tailrace.worker.build import Site
    from tailrace.worker.exchange.delivery import Delivery
    from tailrace.worker.execution.task import Task
    from tailrace.worker.worker_state import WorkerState


def make_groups(worker: WorkerState, site: Site, delivery: Delivery) -> None:
    """Let the tasks share that the policy lets, per stage."""
    program = worker.program
    for stage in program.plan.stages:
        here = [task for task in worker.tasks if task.stage.id == stage.id]
        owners = site.queues.get(stage.id)
        if owners is not None:
            members = [task for task in here if owners[task.index] == worker.slot]
            away = [
                index for index, owner in enumerate(owners) if owner == worker.slot != site.placement[stage.id][index]
            ]
        else:
            members, away = here, []
        wanted = shares(stage, program.plan.inputs[stage.id], program.policy.inbox, program.policy.sharing)
        if wanted and members and len(members) + len(away) > 1:
            worker.groups[stage.id] = _group(worker, site, delivery, members, away)


def _group(worker: WorkerState, site: Site, delivery: Delivery, members: list[Task], away: list[int]) -> Group:
    program, stage = worker.program, members[0].stage
    consumers = []
    channels: dict[int, Channel] = {}
    for index in away:
        channels |= inbox_of(program, site, stage, index).channels
        number = handout_channel(program.plan, stage, index)
        window_bytes = site.bounds(program).inbox
        box = Outbox(number, site.placement[stage.id][index], index, program.settings.inbox_tuples, window_bytes)
        worker.outbound[number] = box
        consumers.append(RemoteConsumer(box, stage.head.concurrency if stage.is_async else None))
    for number, channel in channels.items():
        worker.inbound[number] = (members[0], channel)
    return _share(worker, delivery, members, channels, consumers)


def _share(
    worker: WorkerState,
    delivery: Delivery,
    members: list[Task],
    channels: dict[int, Channel],
    consumers: list[RemoteConsumer],
) -> Group:
    own = {task: task.inbox for task in members if isinstance(task.inbox, Inbox)}
    inbox = SharedInbox({number: each for mine in own.values() for number, each in mine.channels.items()} | channels)
    group = Group(worker, delivery, own, inbox, consumers)
    for task, mine in own.items():
        inbox.adopt(mine.leave())
        task.inbox, task.group = inbox, group
    return group


def share(worker: WorkerState, stage: int, delivery: Delivery) -> bool:
    """Let the tasks of a stage in this worker take from one queue from now on; false where there is nothing to do.

    Nor is there where one of them has seen the end of its input: it takes no more, neither from its own queue nor from
    another's.
    """
    members = [task for task in worker.tasks if task.stage.id == stage]
    if len(members) < 2 or stage in worker.groups or any(task.closing for task in members):  # noqa: PLR2004
        return False
    if not may_share(members[0].stage, worker.program.plan.inputs[stage]):
        return False
    worker.groups[stage] = group = _share(worker, delivery, members, {}, [])
    group.wake()
    return True


def unshare(worker: WorkerState, stage: int) -> bool:
    """Give each task of a stage its own queue again; false where there is nothing to do, or other workers take part.

    What is being worked on is finished by whoever claimed it.
    """
    group = worker.groups.get(stage)
    if group is None or group.consumers or any(task.closing for task in group.members):
        return False
    del worker.groups[stage]
    for task, own in group.own.items():
        task.inbox, task.group = own, None
    for channel, batch, since_ns in group.inbox.leave():
        task, _ = worker.inbound[channel.id]
        group.own[task].adopt(channel, batch, since_ns)
    for task in group.members:
        worker.enqueue(task)
    return True
