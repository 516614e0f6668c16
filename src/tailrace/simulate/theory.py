"""Queueing theory to hold the simulator against: Erlang-C."""

from __future__ import annotations


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
