"""Queueing theory to hold the simulator and the benches against: Erlang-C. Pure; the random source is passed in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random


def erlang_c(servers: int, offered: float) -> float:
    """The share of tuples that wait in M/M/c with ``offered`` = lambda / mu, by the stable recursion over Erlang-B."""
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = offered * blocked / (count + offered * blocked)
    use = offered / servers
    return blocked / (1 - use * (1 - blocked))


def mean_wait_s(servers: int, arrivals_per_s: float, services_per_s: float) -> float:
    """Mean time in the queue: C / (c mu - lambda)."""
    offered = arrivals_per_s / services_per_s
    return erlang_c(servers, offered) / (servers * services_per_s - arrivals_per_s)


@dataclass(frozen=True)
class ErlangQueue:
    """M/M/c: Poisson arrivals, exponential service, so many servers before one queue."""

    servers: int
    arrivals_per_s: float
    services_per_s: float

    @cached_property
    def waiting_share(self) -> float:
        """The share of tuples that wait."""
        return erlang_c(self.servers, self.arrivals_per_s / self.services_per_s)

    def draw_s(self, random: Random) -> float:
        """One time in the system: a share C of the tuples waits, for a time that is exponential with c mu - lambda."""
        service_s = random.expovariate(self.services_per_s)
        if random.random() >= self.waiting_share:
            return service_s
        return service_s + random.expovariate(self.servers * self.services_per_s - self.arrivals_per_s)
