"""Two real workers whose channels are played on by hand: what was said and sent is compared with what arrives.

The source's outboxes lead to two tasks of its own worker and two of another, with own inboxes or shared ones. Tuples,
ends, pauses and all other control items are said between flushes, deliveries of bytes and work.
"""

from __future__ import annotations

from collections import defaultdict

import pytest
from tests.unit.worker.mesh import Mesh

import tailrace as tr
from tailrace import items
from tailrace.batch import Batch, numbers
from tailrace.config import Policy
from tailrace.items import RULES, End, Paused, Prompt, Resync
from tailrace.receiving.shared_inbox import SharedInbox
from tailrace.testing import TestSink
from tailrace.worker.exchange.control_items import ChannelOrderError

WINDOW = 6
#: What each kind is said with here; of an end, the outbox says when.
SAID = {
    items.Moved: lambda number: items.Moved(number, 1),
    items.Behind: items.Behind,
    Prompt: lambda number: Prompt(number % 2 == 0),
}
#: Kinds whose handlers run; of the others only the arrival is looked at, for they would end the channel's story.
HEEDED = {End, Paused, Prompt, Resync}


def delivery_of(brain):
    return brain.deployment.delivery


def state_of(brain):
    return brain.deployment.worker


class Line:
    """One channel with both its ends, and what was put, said and found on it."""

    def __init__(self, box, channel, task):
        self.box = box
        self.channel = channel
        self.task = task
        self.put = self.done = 0
        #: Items said, each with how many tuples were sent before it, and whether the end was.
        self.said = []
        self.arrived = []
        self.pauses = 0

    @property
    def end_noted(self):
        return self.channel.ended or self.channel.ending is not None


class Play:
    """A script on two workers; checks what must hold after every step."""

    def __init__(self, inbox, broken=None):
        flow = tr.Topology("items")
        stream = flow.source(tr.sources.items(range(9)), tasks=1).shuffle().map(abs, tasks=4, name="work")
        stream.shuffle().sink(TestSink(), tasks=1)
        self.mesh = Mesh(flow, [[0], [0, 0, 1, 1], [0]], policy=Policy(chaining="off", inbox=inbox))
        self.states = [state_of(self.mesh.brains[slot]) for slot in (0, 1)]
        if broken is not None:
            for state in self.states:
                state.control = broken(state)
        (source,) = (task for task in self.mesh.brains[0].tasks if task.source is not None)
        self.ways = {}
        for box in source.boxes:
            task, channel = self.states[box.slot].inbound[box.channel]
            box.window = channel.window = WINDOW
            channel.hurry(on=False)
            self.ways[box.channel] = Line(box, channel, task)
        self.order = list(self.ways.values())
        self.claims = defaultdict(list)
        self.number = 0
        for state in self.states:
            for kind in RULES:
                if kind in state.control._handlers:
                    state.control.handle(kind, self.spied(kind, state.control._handlers[kind]))

    def spied(self, kind, handler):
        def heed(number, item, slot):
            way = self.ways[number]
            way.arrived.append(item)
            assert len(way.arrived) <= len(way.said), "it was not to be sent yet"
            assert (item, way.channel.received, way.end_noted) == way.said[len(way.arrived) - 1]
            if kind in HEEDED:
                handler(number, item, slot)
            if kind is Paused and not RULES[kind].overtakes_inbox:
                assert not way.task.inbox.tuples, "it took effect in front of what waits"

        return heed

    # -- steps ---------------------------------------------------------------------------------------------------

    def run(self, script):
        for what, where, many in script:
            getattr(self, what)(self.order[where], many)
            self.check()
        self.finish()

    def send(self, way, many):
        if not way.box.ended:
            way.box.put(Batch([(way.box.channel, way.put + at) for at in range(many)], None, numbers()))
            way.put += many
            self.states[0].dirty[way.box] = None

    def say(self, way, item):
        way.said.append((item, way.box.sent, way.box.end_sent))
        self.states[0].control.say(way.box, item)

    def control(self, way, which):
        kind = list(SAID)[which % len(SAID)]
        self.number += 1
        item = SAID[kind](self.number)
        if RULES[kind].overtakes_outbox or not way.box.values:
            self.say(way, item)
        else:
            with pytest.raises(ChannelOrderError):
                self.states[0].control.say(way.box, item)

    def end(self, way, many):
        del many
        way.box.ended = True
        self.states[0].dirty[way.box] = None

    def pause(self, way, many):
        del many
        way.pauses += 1
        way.box.paused = True
        self.states[0].dirty.pop(way.box, None)
        self.say(way, Paused(way.pauses))

    def release(self, way, many):
        del many
        way.box.paused = False
        self.states[0].dirty[way.box] = None

    def flush(self, way=None, many=0):
        del way, many
        for each in self.order:
            box = each.box
            # An end goes behind all that its outbox holds; noted beforehand, for within a worker it arrives at once.
            if box.ended and not box.end_sent and not box.paused and len(box.values) <= max(0, box.room):
                each.said.append((End(), box.sent + len(box.values), False))
        delivery_of(self.mesh.brains[0]).flush(idle=True)

    def deliver(self, way, many):
        del way
        for _ in range(many):
            if self.mesh.mail.get((0, 1)):
                self.mesh.brains[1].on_message(self.mesh.mail[0, 1].popleft())

    def take(self, way, many):
        inbox = way.task.inbox
        if inbox.waiting:
            arrivals, batch = inbox.take(many)
            for channel, _, _ in arrivals:
                if channel.credit_due:
                    delivery_of(self.mesh.brains[way.box.slot]).credit(channel)
            self.claims[inbox].append((way.task, arrivals, batch))

    def work(self, way, many):
        del many
        if self.claims[way.task.inbox]:
            task, arrivals, batch = self.claims[way.task.inbox].pop(0)
            for number, at in batch.values:
                assert at == self.ways[number].done, "tuples of a channel keep their order"
                self.ways[number].done += 1
            delivery_of(self.mesh.brains[way.box.slot]).finished(arrivals)
            if task.group is not None:
                task.group.done(arrivals)

    def credits(self, way=None, many=0):
        del way, many
        delivery_of(self.mesh.brains[1]).flush(idle=True)
        for message in self.mesh.mail.pop((1, 0), ()):
            self.mesh.brains[0].on_message(message)

    def carry(self, way=None, many=0):
        """All that was sent arrives, while nothing is worked on: what may overtake has overtaken."""
        del way, many
        self.flush()
        self.deliver(None, 1000)
        for each in self.order:
            assert each.arrived == [item for item, _, _ in each.said]
            if each.box.ended and not each.box.paused:
                assert (End() in each.arrived) == (RULES[End].overtakes_outbox or not each.box.values)

    # -- what must hold ------------------------------------------------------------------------------------------

    def check(self):
        for way in self.order:
            box, channel = way.box, way.channel
            assert channel.received <= box.sent <= way.put
            paused = [item.epoch for item in way.arrived if type(item) is Paused]
            assert channel.paused == (paused[-1] if paused else 0)
            if box.paused and paused and paused[-1] == way.pauses:
                assert channel.received == box.sent, "nothing comes behind a pause"
            if End() in way.arrived:
                assert channel.received == way.put
            self.check_end(way)

    def check_end(self, way):
        """A task has come to its end when all ends have arrived, and the data in front of them is out of the way.

        Of an own inbox that is: taken. Of a shared one it is: done, because others may still work on it.
        """
        inbox = way.task.inbox
        mine = [each for each in self.order if each.task.inbox is inbox]
        arrived = all(End() in each.arrived for each in mine)
        passed = all(each.done == each.put for each in mine) if isinstance(inbox, SharedInbox) else not inbox.tuples
        assert inbox.ended == (arrived and (passed or RULES[End].overtakes_inbox))
        if isinstance(inbox, SharedInbox):
            assert not way.channel.ended or way.done == way.put

    def finish(self):
        """Everything is worked off in the end, and every item has arrived."""
        self.carry()
        for way in self.order:
            self.end(way, 0)
            self.release(way, 0)
        for _ in range(400):
            self.carry()
            for way in self.order:
                self.take(way, 100)
                self.work(way, 0)
            self.credits()
            self.check()
            if all(way.task.inbox.ended and way.done == way.put for way in self.order):
                break
        assert [way.done for way in self.order] == [way.put for way in self.order]
        assert all(way.task.inbox.ended for way in self.order)
