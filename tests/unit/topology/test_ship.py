"""What cannot travel is named: operator, function, variable."""

from __future__ import annotations

import functools
import threading

import cloudpickle
import pytest

from tailrace.connect import sinks, sources
from tailrace.topology.errors import NotShippableError
from tailrace.topology.graph import Topology
from tailrace.topology.operators import Operator
from tailrace.topology.ship import ship

lock = threading.Lock()


# Made as if in the user's own script: what lives in an importable module travels by its name only.
SCRIPT = """
import threading

lock = threading.Lock()

def reads_global(value):
    return [lock for _ in value]

def calls_helper(value):
    return reads_global(value)

class Service:
    def __init__(self):
        self.inner = {"locks": [lock]}
    def look_up(self, value):
        return value

class Slotted:
    __slots__ = ("handle",)
    def __init__(self):
        self.handle = lock
    def __call__(self, value):
        return value

class Unwilling:
    def __reduce__(self):
        raise ValueError("I stay here")
"""


@pytest.fixture
def script():
    names = {"__name__": "__main__"}
    exec(SCRIPT, names)
    return names


def flow_with(fn, verb="map"):
    flow = Topology("flow")
    getattr(flow.source(sources.items([1])), verb)(fn, name="op").sink(sinks.discard())
    return flow


def refusal(flow):
    with pytest.raises(NotShippableError) as caught:
        flow.validate()
    assert "'op'" in caught.value.message
    assert caught.value.__cause__ is not None
    return caught.value


def test_a_topology_that_can_travel_does():
    factor = 3
    flow = flow_with(lambda v: v * factor)
    assert cloudpickle.loads(ship(flow)).operators["op"].fn(2) == 6


def test_a_variable_of_a_closure():
    guard = threading.Lock()

    def enrich(value):
        with guard:
            return value

    error = refusal(flow_with(enrich))
    assert "variable 'guard' of function 'enrich'" in error.message
    assert "_thread.lock" in error.message
    assert "open()" in error.hint


def test_a_global_variable_used_only_in_a_comprehension(script):
    assert "global variable 'lock' of function 'reads_global'" in refusal(flow_with(script["reads_global"])).message


def test_the_innermost_function_is_named_with_the_way_to_it(script):
    message = refusal(flow_with(script["calls_helper"])).message
    assert "global variable 'lock' of function 'reads_global'" in message
    assert "calls_helper -> global variable 'reads_global' -> global variable 'lock'" in message


def test_a_default():
    def wait(value, guard=lock):
        return value

    assert "default of 'guard' of function 'wait'" in refusal(flow_with(wait)).message


def test_a_keyword_default():
    def wait(value, *, guard=lock):
        return value

    assert "default of 'guard' of function 'wait'" in refusal(flow_with(wait)).message


@pytest.mark.parametrize(
    ("partial", "name"),
    [
        (functools.partial(lambda guard, value: value, lock), "argument 0"),
        (functools.partial(lambda value, guard: value, guard=lock), "argument 'guard'"),
    ],
)
def test_an_argument_of_a_partial(partial, name):
    assert f"{name} of partial of '<lambda>'" in refusal(flow_with(partial)).message


def test_an_attribute_deep_inside_the_object_of_a_method(script):
    message = refusal(flow_with(script["Service"]().look_up)).message
    assert "item 0 of list" in message
    assert "attribute 'inner' -> entry 'locks' -> item 0" in message


def test_an_attribute_in_a_slot(script):
    assert "attribute 'handle' of Slotted object" in refusal(flow_with(script["Slotted"]())).message


def test_an_operator_object():
    class Guarded(Operator):
        def __init__(self):
            self.guard = lock

        def process(self, value):
            return [value]

    assert "attribute 'guard' of Guarded object" in refusal(flow_with(Guarded(), "process")).message


def test_an_operator_class():
    class Guarded(Operator):
        guard = lock

        def process(self, value):
            return [value]

    assert "attribute 'guard' of class 'Guarded'" in refusal(flow_with(Guarded, "process")).message


def test_a_method_of_a_base_class_and_a_property():
    class Base(Operator):
        def process(self, value):
            return [lock_of_base]

    class Derived(Base):
        pass

    class Proper(Operator):
        @property
        def guard(self):
            return lock_of_base

        def process(self, value):
            return [value]

    lock_of_base = threading.Lock()
    assert "variable 'lock_of_base' of function 'process'" in refusal(flow_with(Derived(), "process")).message
    assert "variable 'lock_of_base' of function 'guard'" in refusal(flow_with(Proper, "process")).message


def test_keys_and_groupings_are_looked_at_too():
    guard = threading.Lock()
    flow = Topology("flow")
    flow.source(sources.items([1])).key_by(lambda v: guard).count(name="op").sink(sinks.discard())
    assert "variable 'guard'" in refusal(flow).message
    flow = Topology("flow")
    flow.source(sources.items([1])).group_by(lambda v, n: guard).map(str, name="op").sink(sinks.discard())
    assert "variable 'guard'" in refusal(flow).message


def test_an_object_that_refuses_by_itself(script):
    unwilling = script["Unwilling"]()
    message = refusal(flow_with(lambda v: unwilling)).message
    assert "variable 'unwilling'" in message
    assert "I stay here" in message


def test_functions_that_refer_to_each_other_do_not_trap_the_search():
    guard = threading.Lock()

    def ping(value):
        return pong(value)

    def pong(value):
        return ping(value) or guard

    assert "variable 'guard' of function 'pong'" in refusal(flow_with(ping)).message


def test_a_value_in_a_source():
    flow = Topology("flow")
    flow.source(sources.items([1, lock]), name="op").sink(sinks.discard())
    assert "attribute 'values' -> item 1" in refusal(flow).message


def test_something_stuck_to_the_topology_itself():
    flow = flow_with(str)
    flow.note = lock
    with pytest.raises(NotShippableError, match="Topology 'flow' cannot be sent"):
        ship(flow)
