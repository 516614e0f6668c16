"""Lets tasks take from one queue: when the worker is built, as the policy has it, or at run time, and back again.

Called by the floor, and by whoever changes policies while the query runs. Touches the tasks' inboxes and the floor's
tables of channels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.receiving.inbox import Inbox
from tailrace.receiving.shared import may_share, shares
from tailrace.receiving.shared_inbox import SharedInbox
from tailrace.sending.outbox import Outbox
from tailrace.worker.build import handout_channel, inbox_of
from tailrace.worker.exchange.shared_queues import Group, Seat

if TYPE_CHECKING:
    from tailrace.receiving.inbox import Channel
    from tailrace.worker.build import Site
    from tailrace.worker.exchange.delivery import Delivery
    from tailrace.worker.execution.task import Task
    from tailrace.worker.worker_state import Floor


def make_groups(floor: Floor, site: Site) -> dict[int, Group]:
    """Let the tasks share that the policy lets, per stage."""
    program = floor.program
    found = {}
    for stage in program.plan.stages:
        here = [task for task in floor.tasks if task.stage.id == stage.id]
        homes = site.queues.get(stage.id)
        if homes is not None:
            mates = [task for task in here if homes[task.index] == floor.slot]
            away = [index for index, home in enumerate(homes) if home == floor.slot != site.placement[stage.id][index]]
        else:
            mates, away = here, []
        wanted = shares(stage, program.plan.inputs[stage.id], program.policy.inbox, program.policy.sharing)
        if wanted and mates and len(mates) + len(away) > 1:
            found[stage.id] = _group(floor, site, mates, away)
    return found


def _group(floor: Floor, site: Site, mates: list[Task], away: list[int]) -> Group:
    program, stage = floor.program, mates[0].stage
    seats = []
    channels: dict[int, Channel] = {}
    for index in away:
        channels |= inbox_of(program, site, stage, index).channels
        number = handout_channel(program.plan, stage, index)
        window_bytes = site.bounds(program).inbox
        box = Outbox(number, site.placement[stage.id][index], index, program.settings.inbox_tuples, window_bytes)
        floor.outbound[number] = box
        seats.append(Seat(box, stage.head.concurrency if stage.is_async else None))
    for number, channel in channels.items():
        floor.inbound[number] = (mates[0], channel)
    return _share(floor, mates, channels, seats)


def _share(floor: Floor, mates: list[Task], channels: dict[int, Channel], seats: list[Seat]) -> Group:
    own = {task: task.inbox for task in mates if isinstance(task.inbox, Inbox)}
    inbox = SharedInbox({number: each for mine in own.values() for number, each in mine.channels.items()} | channels)
    group = Group(floor, mates, inbox, seats)
    group.own = own
    for task, mine in own.items():
        inbox.adopt(mine.leave())
        task.inbox, task.group = inbox, group
    return group


def share(floor: Floor, stage: int, delivery: Delivery) -> bool:
    """Let the tasks of a stage in this worker take from one queue from now on; false where there is nothing to do.

    Nor is there where one of them has seen the end of its input: it takes no more, neither from its own queue nor from
    another's.
    """
    mates = [task for task in floor.tasks if task.stage.id == stage]
    if len(mates) < 2 or stage in floor.groups or any(task.closing for task in mates):  # noqa: PLR2004
        return False
    if not may_share(mates[0].stage, floor.program.plan.inputs[stage]):
        return False
    floor.groups[stage] = group = _share(floor, mates, {}, [])
    group.delivery = delivery
    group.wake()
    return True


def unshare(floor: Floor, stage: int) -> bool:
    """Give each task of a stage its own queue again; false where there is nothing to do, or other workers take part.

    What is being worked on is finished by whoever claimed it.
    """
    group = floor.groups.get(stage)
    if group is None or group.seats or any(task.closing for task in group.mates):
        return False
    del floor.groups[stage]
    for task, own in group.own.items():
        task.inbox, task.group = own, None
    for channel, batch, since_ns in group.inbox.leave():
        task, _ = floor.inbound[channel.id]
        group.own[task].adopt(channel, batch, since_ns)
    for task in group.mates:
        floor.enqueue(task)
    return True
