"""Functions that wait: ``async def`` calls are open side by side; a blocking one does not hold its neighbours up."""

from __future__ import annotations

import asyncio
import time

import pytest

import tailrace as tr
from tailrace.testing import TestSource

ENOUGH = 6


class Together:
    """Returns only when several calls are open at once: one after the other they would never end."""

    def __init__(self):
        self.open = self.most = 0

    async def __call__(self, value):
        self.open += 1
        self.most = max(self.most, self.open)
        while self.most < ENOUGH:  # noqa: ASYNC110 - an Event would belong to the loop of the driver
            await asyncio.sleep(0.001)
        self.open -= 1
        return value * 2


def test_awaited_calls_are_open_side_by_side(run):
    together = Together()

    async def double(value):
        return await together(value)

    flow, out = tr.Topology("async"), tr.sinks.collect()
    flow.source(TestSource(range(50))).map(double, concurrency=ENOUGH).sink(out)
    run(flow)
    assert sorted(out.values) == [2 * v for v in range(50)]


def test_async_filter_flat_map_and_process(run):
    async def odd(value):
        await asyncio.sleep(0)
        return value % 2

    async def twice(value):
        await asyncio.sleep(0.001)
        return [value, value]

    class Negate(tr.Operator):
        async def process(self, value):
            await asyncio.sleep(0)
            return [-value] if value > 2 else None

    flow, out = tr.Topology("async-verbs"), tr.sinks.collect()
    numbers = flow.source(TestSource(range(10)))
    numbers.filter(odd).flat_map(twice, tasks=2).process(Negate()).sink(out)
    run(flow)
    assert sorted(out.values) == sorted(-v for v in (3, 5, 7, 9) for _ in range(2))


def test_an_operator_may_take_longer_to_open_than_a_lease_lasts(run):
    class Loads(tr.Operator):
        def open(self, ctx):
            time.sleep(2.5)

        def process(self, value):
            return [value]

    flow, out = tr.Topology("loads"), tr.sinks.collect()
    flow.source(TestSource(range(10))).process(Loads).sink(out)
    run(flow, settings=tr.Settings(lease_s=1.0))
    assert sorted(out.values) == list(range(10))


@pytest.mark.parametrize("declared", [True, False])
def test_a_blocking_function_does_not_hold_up_its_neighbours(run, host, tmp_path, declared):
    """One worker; the first operator blocks until the second has seen everything, so it must not stall it."""
    if host == "in process":
        pytest.skip("in process all user code runs inline")
    gate = tmp_path / "gate"

    def wait_for_gate(value):
        while not gate.exists():
            time.sleep(0.005)
        return value

    class Opens(tr.Operator):
        def open(self, ctx):
            self.left = 100

        def process(self, value):
            self.left -= 1
            if not self.left:
                gate.touch()

    flow, out = tr.Topology("blocking"), tr.sinks.collect()
    flow.source(TestSource(range(5)), name="few").shuffle().map(wait_for_gate, blocking=declared).sink(out)
    flow.source(TestSource(range(100)), name="many").shuffle().process(Opens).sink(tr.sinks.discard())
    run(flow, workers=1)
    assert sorted(out.values) == list(range(5))
