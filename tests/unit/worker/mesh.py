"""Real worker brains joined by queues in memory, placed and driven by hand."""

from __future__ import annotations

from collections import deque

from tests.unit.worker.rig import context

from tailrace import protocol
from tailrace.clock import FakeClock
from tailrace.config import Policy, Settings
from tailrace.coordinator.deployment import deal_partitions, program_of
from tailrace.transport import codec, wire
from tailrace.worker.brain import WorkerBrain
from tailrace.worker.execution.executors import run_piece

#: Time passes with every flush, so that acks do not gather for ever.
ACK_PACE_NS = Settings().ack_pace_us * 1000


class Mesh:
    """``placement`` gives, per stage and task, the slot; messages wait in ``mail[from, to]`` until delivered."""

    def __init__(self, flow, placement, *, policy=None, settings=None, room=1000, queues=None):
        self.clock = FakeClock(1)
        self.room = room
        self.mail = {}
        self.said = []
        policy = policy or Policy(chaining="off")
        program = program_of(flow, policy, settings or Settings())
        self.plan = program.plan
        self.placement = placement
        self.queues = queues or {}
        self.program = codec.dumps_by_value(program)
        self.slots = sorted({slot for row in placement for slot in row})
        self.attempts = dict.fromkeys(self.slots, 1)
        self.brains = {}
        for slot in self.slots:
            self.start(slot)
        for brain in self.brains.values():
            brain.on_control(protocol.Go())

    def peer(self, slot):
        return protocol.Peer(slot, self.attempts[slot], f"host-{slot}", ("127.0.0.1", slot + 1))

    def start(self, slot, marks=None):
        def send(to, message):
            way = self.mail.setdefault((slot, to), deque())
            if len(way) >= self.room:
                return False
            way.append(message)
            return True

        brain = WorkerBrain(slot, self.attempts[slot], self.clock, send, context)
        partitions = [[*row, (marks or {}).get(row[0], 0)] for row in deal_partitions(self.plan)]
        peers = [self.peer(each) for each in self.slots]
        brain.on_control(
            protocol.Deploy("query", self.program, self.placement, peers, partitions, marks or {}, queues=self.queues)
        )
        self.brains[slot] = brain
        assert isinstance(brain.control_out.popleft(), protocol.Deployed)

    def replace(self, slot, marks=None):
        """Lose a worker and put another in its place, in the order that the coordinator keeps."""
        for way in [way for way in self.mail if slot in way]:
            del self.mail[way]
        self.attempts[slot] += 1
        for other, brain in self.brains.items():
            if other != slot:
                brain.on_control(protocol.PeerUp(self.peer(slot)))
                assert protocol.PeerSeen(slot, self.attempts[slot]) in brain.control_out
        self.start(slot, marks)
        self.brains[slot].on_control(protocol.Go())
        for other, brain in self.brains.items():
            if other != slot:
                brain.on_control(protocol.Resume(slot))

    def task(self, name, index=0):
        return next(
            task
            for brain in self.brains.values()
            for task in brain.tasks
            if task.index == index and name in {spec.name for spec in task.stage.operators}
        )

    # -- turns ---------------------------------------------------------------------------------------------------

    def work(self, slot, pieces=10_000):
        """Run pieces of user code; true when there was any."""
        for done in range(pieces):
            work = self.brains[slot].next_work()
            if work is None:
                return done > 0
            run_piece(work)
            self.brains[slot].finish(work)
        return True

    def flush(self, slot):
        self.clock.advance(ACK_PACE_NS)
        self.brains[slot].flush(idle=True)

    def deliver(self, slot, messages=10_000):
        """Let a worker read mail; true when there was any."""
        found = False
        for (_, to), way in list(self.mail.items()):
            for _ in range(min(messages, len(way)) if to == slot else 0):
                self.brains[slot].on_message(way.popleft())
                found = True
        return found

    def turn(self, slot):
        moved = self.deliver(slot)
        moved = self.work(slot) or moved
        self.flush(slot)
        return moved

    def settle(self, *, without=()):
        """Until nothing moves any more."""
        still = 0
        while still < 2:  # the last thing a quiet worker does is to send
            moved = [self.turn(slot) for slot in self.slots if slot not in without]
            still = 0 if any(moved) else still + 1

    def advance(self, seconds):
        self.clock.advance(int(seconds * 1e9))
        for brain in self.brains.values():
            brain.on_time()

    def frames(self, sender, to, kind):
        return [
            frame
            for message in self.mail.get((sender, to), ())
            for frame in wire.frames(message)
            if frame.kind == kind
        ]  # fmt: skip

    def controls(self, slot, kind):
        return [message for message in self.brains[slot].control_out if isinstance(message, kind)]

    @property
    def closed(self):
        return all(task.closed for brain in self.brains.values() for task in brain.tasks)
