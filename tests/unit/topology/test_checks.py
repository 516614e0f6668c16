"""What can be wrong with one operator, found while drawing and named."""

from __future__ import annotations

import functools
import operator

import pytest

import tailrace as tr
from tailrace.connect import sinks, sources
from tailrace.state.errors import StateDeclarationError
from tailrace.topology import errors
from tailrace.topology.graph import Topology
from tailrace.topology.operators import KeyedOperator, Operator


@pytest.fixture
def numbers():
    return Topology("flow").source(sources.items([1, 2, 3]))


class Good(Operator):
    def process(self, value):
        yield value


class GoodKeyed(KeyedOperator):
    def process(self, key, value, state):
        return None


async def wait(value):
    return value


async def wait_and_yield(value):
    yield value


def two(a, b):
    return a, b


def yields(value):
    yield value


@pytest.mark.parametrize("tasks", [0, -1, 1.5, "4", True, 10_001])
def test_task_counts(numbers, tasks):
    with pytest.raises(errors.TaskCountError, match="tasks of operator 'str' must be"):
        numbers.map(str, tasks=tasks)


def test_the_largest_task_count_is_accepted(numbers):
    numbers.map(str, tasks=10_000)


def test_an_unknown_error_policy_names_the_nearest(numbers):
    with pytest.raises(errors.ErrorPolicyError) as caught:
        numbers.map(str, on_error="dead_leter")
    assert "'dead_letter'" in caught.value.hint
    assert caught.value.exit_code == 2


def test_an_unknown_option_names_the_nearest(numbers):
    with pytest.raises(errors.OptionError, match="no option 'task'") as caught:
        numbers.map(str, task=3)
    assert "'tasks'" in caught.value.hint


def test_options_that_make_no_sense_for_a_verb_are_refused(numbers):
    with pytest.raises(errors.OptionError, match="has no option 'concurrency'"):
        numbers.key_by(abs).count(concurrency=3)


@pytest.mark.parametrize("concurrency", [0, -1, 2.0, True, None, 100_001])
def test_concurrency(numbers, concurrency):
    with pytest.raises(errors.OptionError, match="concurrency of operator 'wait'"):
        numbers.map(wait, concurrency=concurrency)


@pytest.mark.parametrize("verb", ["map", "filter", "flat_map", "process"])
@pytest.mark.parametrize("thing", [None, 3, "split", yields(1)])
def test_things_that_are_no_functions(numbers, verb, thing):
    with pytest.raises(errors.NotCallableError, match="needs a function, found"):
        getattr(numbers, verb)(thing)


@pytest.mark.parametrize(
    ("draw", "called"),
    [
        (lambda s: s.map(two), "two(value)"),
        (lambda s: s.filter(lambda: 1), "<lambda>(value)"),
        (lambda s: s.key_by(abs).reduce(lambda a: a), "<lambda>(combined, value)"),
        (lambda s: s.key_by(two).count(), "two(value)"),
        (lambda s: s.key_by(abs).aggregate(two, two), "two()"),
        (lambda s: s.key_by(abs).aggregate(int, two, two), "two(accumulator)"),
        (lambda s: s.key_by(abs).process(two), "two(key, value, state)"),
        (lambda s: s.branch(two), "two(value)"),
        (lambda s: s.map(functools.partial(two, 1, 2)), "two(value)"),
    ],
)
def test_functions_that_take_other_arguments(numbers, draw, called):
    with pytest.raises(errors.NotCallableError) as caught:
        draw(numbers)
    assert f"will call {called}, but its signature is" in caught.value.message


def test_functions_whose_signature_is_hidden_are_let_pass(numbers):
    numbers.map(int).map(operator.itemgetter(0)).map(str.upper)


@pytest.mark.parametrize(
    "draw",
    [
        lambda s: s.map(yields),
        lambda s: s.filter(yields),
        lambda s: s.key_by(abs).reduce(lambda a, b: (yield)),
    ],
)
def test_a_function_that_yields_belongs_into_flat_map(numbers, draw):
    with pytest.raises(errors.NotCallableError) as caught:
        draw(numbers)
    assert "flat_map" in caught.value.hint
    numbers.flat_map(yields).process(yields)


@pytest.mark.parametrize(
    "draw",
    [
        lambda s: s.key_by(wait).count(),
        lambda s: s.branch(wait),
        lambda s: s.key_by(abs).aggregate(int, wait),
        lambda s: s.sink(sinks.function(wait)),
        lambda s: s.flat_map(wait_and_yield),
    ],
)
def test_async_where_nobody_would_await(numbers, draw):
    with pytest.raises(errors.NotCallableError, match="async def"):
        draw(numbers)


def test_an_object_with_an_async_call_is_not_mistaken_for_a_plain_one(numbers):
    class Hidden:
        async def __call__(self, value):
            return value

    with pytest.raises(errors.NotCallableError, match="something to await"):
        numbers.map(Hidden())
    numbers.map(Hidden().__call__)


def test_key_by_without_a_function(numbers):
    with pytest.raises(errors.GroupingError, match="found 5"):
        numbers.key_by(5)


def test_branch_needs_a_predicate(numbers):
    with pytest.raises(errors.NotCallableError, match="at least one predicate"):
        numbers.branch()


def test_a_keyed_operator_needs_a_keyed_stream(numbers):
    with pytest.raises(errors.NotCallableError, match="'GoodKeyed', but its stream has no keys"):
        numbers.process(GoodKeyed)
    numbers.key_by(abs).process(GoodKeyed)


@pytest.mark.parametrize("thing", [Good, functools.partial(Good)])
def test_an_operator_class_belongs_into_process(numbers, thing):
    with pytest.raises(errors.NotCallableError, match="the operator class 'Good'") as caught:
        numbers.map(thing)
    assert ".process" in caught.value.hint


def _operator(**members):
    return type("Made", (Operator,), members)


@pytest.mark.parametrize(
    ("operator_class", "error", "text"),
    [
        (_operator(), errors.NotCallableError, "has none"),
        (_operator(process=lambda self: None), errors.NotCallableError, "signature"),
        (_operator(process=lambda self, v: None, tick=wait), errors.NotCallableError, "plain method tick"),
        (_operator(process=lambda self, v: None, tick_every_s=0), errors.OptionError, "tick_every_s"),
        (_operator(process=lambda self, v: None, tick_every_s="1"), errors.OptionError, "tick_every_s"),
        (
            _operator(process=lambda self, v: 0, __init__=lambda self, path: None),
            errors.NotCallableError,
            "made without",
        ),
    ],
)
def test_operator_classes_that_cannot_work(numbers, operator_class, error, text):
    with pytest.raises(error, match=text):
        numbers.process(operator_class)


def test_a_class_with_arguments_may_be_given_as_an_object(numbers):
    made = _operator(process=lambda self, v: None, __init__=lambda self, path: None)
    numbers.process(made("x"))


def test_a_keyed_operator_may_not_await(numbers):
    class Late(KeyedOperator):
        async def process(self, key, value, state):
            return None

    with pytest.raises(errors.NotCallableError, match="async def"):
        numbers.key_by(abs).process(Late)


@pytest.mark.parametrize(
    ("found", "hint"),
    [("wiki.txt", "tr.sources.lines('wiki.txt')"), ([1], "tr.sources.items"), (sources.lines, "called with its")],
)
def test_things_that_are_no_source(found, hint):
    with pytest.raises(errors.NotCallableError, match="needs a source") as caught:
        Topology("flow").source(found)
    assert hint in caught.value.hint


@pytest.mark.parametrize(("found", "hint"), [(print, "tr.sinks.function"), (3, "tr.sinks"), (sinks.Collect, "called")])
def test_things_that_are_no_sink(numbers, found, hint):
    with pytest.raises(errors.NotCallableError, match="needs a sink") as caught:
        numbers.sink(found)
    assert hint in caught.value.hint


class Counted(tr.KeyedOperator):
    number = tr.ValueState(int)

    def process(self, key, value, state):
        return None


class Unkeyed(tr.Operator):
    number = tr.ValueState(int)

    def process(self, value):
        return None


def function(key, value, state):
    return None


@pytest.mark.parametrize(
    ("given", "state", "text"),
    [(Unkeyed, None, "'Unkeyed' is no KeyedOperator"), (function, Counted, "must be a class derived from tr.States"),
     (function, tr.States(), "must be a class derived"), (Counted, tr.States, "must be a class derived")],
)  # fmt: skip
def test_states_that_nobody_would_keep(numbers, given, state, text):
    with pytest.raises(StateDeclarationError, match=text):
        numbers.key_by(str).process(given, state=state)


def test_states_are_kept_by_key_only(numbers):
    with pytest.raises(StateDeclarationError, match=r"derive it from tr\.KeyedOperator"):
        numbers.process(Unkeyed())
    numbers.key_by(str).process(Counted())
    numbers.key_by(str).process(function, state=tr.States)
