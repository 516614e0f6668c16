"""M/M/c in the simulator against theory, c from 1 to 20, in two steps that need no luck.

At 20 servers and rho 0.8 (0.5) one tuple in four (270) waits at all, so a mean wait from the simulator alone is within
2 % only after 7 (300) million tuples. Therefore: (1) tuple by tuple the simulator gives the very latencies of the
queue's recursion (Kiefer & Wolfowitz) over the same arrivals and services; (2) the recursion, quick enough for millions
of tuples in numpy, gives Erlang-C's mean wait within 2 %.
"""

from __future__ import annotations

import heapq
from random import Random

import numpy as np
import pytest

from tailrace.simulate.engine import Engine
from tailrace.simulate.model import Policies
from tailrace.simulate.scenarios.checks import queue
from tailrace.simulate.theory import mean_wait_s

SHARED = Policies(inbox="shared")
SERVICES_PER_S = 1000.0


def exact_ms(servers, use):
    return 1000 * mean_wait_s(servers, use * servers * SERVICES_PER_S, SERVICES_PER_S)


def latencies_by_recursion(servers, arrivals_ns, services_ns):
    """Each tuple in turn takes the server that is free first."""
    free_ns = [0] * servers
    for arrival_ns, service_ns in zip(arrivals_ns, services_ns, strict=True):
        end_ns = max(arrival_ns, heapq.heappop(free_ns)) + service_ns
        heapq.heappush(free_ns, end_ns)
        yield end_ns - arrival_ns


@pytest.mark.parametrize("servers", [1, 2, 5, 10, 20])
@pytest.mark.parametrize("use", [0.5, 0.8, 0.95])
def test_every_latency_is_that_of_the_recursion(servers, use):
    model = queue(servers, use)
    engine = Engine(model, SHARED, 7)
    engine.run(4000 / model.source.rate_per_s)
    found = sorted(engine.sources[0].latencies_ns)
    draws = Random("7/servers-0")
    services_ns = [round(model.stages[0].service_us.draw(draws) * 1000) for _ in found]
    expected = latencies_by_recursion(servers, [born_ns for born_ns, _ in found], services_ns)
    assert [latency_ns for _, latency_ns in found] == list(expected)
    assert len(found) > 3500


def mean_wait_ms(servers, use, tuples, queues=4000, warm_up=800):
    """The mean wait by the recursion over many independent queues side by side, and its standard error."""
    draws = np.random.default_rng(servers)
    free = np.zeros((queues, servers))
    rows, now, waited = np.arange(queues), np.zeros(queues), np.zeros(queues)
    steps = tuples // queues
    for step in range(warm_up + steps):
        now += draws.exponential(1.0 / (use * servers), queues)
        first = free.argmin(axis=1)
        begin = np.maximum(now, free[rows, first])
        if step >= warm_up:
            waited += begin - now
        free[rows, first] = begin + draws.exponential(1.0, queues)
    means_ms = waited / steps * 1000 / SERVICES_PER_S
    return float(means_ms.mean()), float(means_ms.std() / queues**0.5)


@pytest.mark.parametrize(
    ("servers", "use", "millions"),
    [
        (1, 0.5, 2), (1, 0.8, 8), (5, 0.8, 8), (10, 0.8, 8), (20, 0.8, 8),
        pytest.param(20, 0.7, 16, marks=pytest.mark.soak),
        pytest.param(20, 0.5, 400, marks=pytest.mark.soak),
    ],
)  # fmt: skip
def test_the_recursion_is_within_two_percent_of_erlang_c(servers, use, millions):
    mean_ms, _ = mean_wait_ms(servers, use, millions * 1_000_000)
    assert mean_ms == pytest.approx(exact_ms(servers, use), rel=0.02)


@pytest.mark.parametrize(
    "servers", [1, *(pytest.param(several, marks=pytest.mark.soak) for several in (5, 10, 20))]
)  # fmt: skip
def test_at_higher_use_it_is_within_three_standard_errors(servers):
    """A queue at 0.95 remembers about 1,600 tuples: it is warmed up for ten times as many."""
    mean_ms, error_ms = mean_wait_ms(servers, 0.95, 4_000_000, queues=1000, warm_up=16_000)
    assert abs(mean_ms - exact_ms(servers, 0.95)) <= 3 * error_ms
    assert error_ms < 0.05 * mean_ms
