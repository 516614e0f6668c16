"""What the tests of the worker share: contexts, captured outputs, a sink whose writes outlive the worker."""

from __future__ import annotations

import logging
from typing import ClassVar

from tailrace.clock import FakeClock
from tailrace.topology.contracts import Sink
from tailrace.topology.operators import OperatorSpec, TaskContext
from tailrace.worker.execution.backends import memory_backends
from tailrace.worker.execution.chain import make_step


def context(spec, task=0, tasks=1):
    return TaskContext(spec.name, task, tasks, "test", logging.getLogger("test"), FakeClock(), lambda values: None)


def spec_of(verb, fn, **options):
    kind = "sink" if verb == "sink" else "transform"
    return OperatorSpec(verb, kind, verb, fn, **options)


class Captured:
    """A step on its own, and what left it: per port a list of bundles."""

    def __init__(self, verb, fn, **options):
        self.spec = spec_of(verb, fn, **options)
        self.step = make_step(self.spec, context(self.spec), memory_backends(16))
        self.ports = {}
        for port in self.spec.ports:
            self.step.consumers[port] = [self._consumer(port)]

    def _consumer(self, port):
        def consume(values, sizes):
            self.ports[port] = as_bundles(values, sizes)

        return consume

    def feed(self, bundles, *, plain=False):
        """Feed lists of values, each a bundle; plain leaves the sizes out, as batches of single values do."""
        self.ports = {}
        values = [value for bundle in bundles for value in bundle]
        self.step.feed(values, None if plain else [len(bundle) for bundle in bundles])
        return self.ports


def as_bundles(values, sizes):
    left = iter(values)
    bundles = [[next(left) for _ in range(size)] for size in ([1] * len(values) if sizes is None else sizes)]
    assert next(left, None) is None, "sizes must cover the values"
    return bundles


class Kept(Sink):
    """Keeps what was written, by its name, for all copies of it in this process: a lost worker's writes stay."""

    written: ClassVar[dict[str, list]] = {}

    def __init__(self, name):
        self.name = name
        self.written[name] = []

    def __getstate__(self):
        return {"name": self.name}

    def write(self, values):
        self.written[self.name].extend(values)
