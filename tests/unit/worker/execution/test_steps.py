"""Steps: what each verb does with a batch of bundles, under every error policy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.worker.rig import Captured

from tailrace.program.errors import OperatorError
from tailrace.topology.contracts import Sink
from tailrace.topology.operators import Aggregation, DeadLetter, KeyedOperator, Operator

#: Values that make the function below fail, and how.
FAILURES = {-1: ValueError("minus one"), -2: StopIteration("minus two"), -3: KeyError("minus three")}
BUNDLES = st.lists(st.lists(st.integers(-3, 20), min_size=1, max_size=5), min_size=1, max_size=6)
POLICIES = st.sampled_from(["skip", "dead_letter"])


def tenfold(value):
    if value in FAILURES:
        raise FAILURES[value]
    return value * 10


def is_even(value):
    return tenfold(value) % 20 == 0


def twice(value):
    """Fail half way: the first output is already there."""
    yield value
    yield tenfold(value)


def one_of(value):
    return [tenfold(value)]


MODELS = {
    "map": (tenfold, lambda value: [value * 10]),
    "filter": (is_even, lambda value: [value] if value % 2 == 0 else []),
    "flat_map": (twice, lambda value: [value, value * 10]),
    "process": (one_of, lambda value: [value * 10]),
}


@pytest.mark.parametrize("verb", MODELS)
@given(bundles=BUNDLES, policy=POLICIES, plain=st.booleans())
def test_failures_leave_their_bundle_and_only_they(verb, bundles, policy, plain):
    if plain:
        bundles = [[value] for bundle in bundles for value in bundle]
    fn, model = MODELS[verb]
    captured = Captured(verb, fn, on_error=policy)
    for _ in range(2):  # once more: nothing of the first batch may be left in the step
        ports = captured.feed(bundles, plain=plain)
        wanted = [[out for value in bundle if value not in FAILURES for out in model(value)] for bundle in bundles]
        assert ports["out"] == wanted
        dead = [[value for value in bundle if value in FAILURES] for bundle in bundles]
        if policy == "dead_letter" and any(dead):
            assert [[letter.value for letter in bundle] for bundle in ports["dead"]] == dead
        else:
            assert "dead" not in ports
    assert captured.step.skipped == 2 * sum(map(len, dead))


@pytest.mark.parametrize("verb", MODELS)
@pytest.mark.parametrize("offender", FAILURES)
def test_fail_names_operator_task_and_value(verb, offender):
    fn, _ = MODELS[verb]
    with pytest.raises(OperatorError) as caught:
        Captured(verb, fn).feed([[4, 6], [offender, 8]])
    assert f"Operator {verb!r}, task 0, failed on {offender}:" in caught.value.message
    assert "on_error='skip'" in caught.value.hint


def test_a_dead_letter_tells_where_what_and_why():
    ports = Captured("map", tenfold, on_error="dead_letter").feed([[1, -1], [2]])
    ((letter,), rest) = ports["dead"]
    assert isinstance(letter, DeadLetter)
    assert (letter.operator, letter.task, letter.value) == ("map", 0, -1)
    assert letter.error == "ValueError: minus one"
    assert "tenfold" in letter.traceback
    assert rest == []


class Touchy:
    """Like an array: neither equal to anything nor true or false."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        raise ValueError("ambiguous")

    __hash__ = None

    def __bool__(self):
        raise ValueError("ambiguous")


def test_values_that_cannot_be_compared_pass_beside_failures():
    captured = Captured("map", lambda value: Touchy(tenfold(value)), on_error="skip")
    ports = captured.feed([[1], [-1], [2]])
    assert [[found.value for found in bundle] for bundle in ports["out"]] == [[10], [], [20]]
    assert captured.feed([[3]])["out"][0][0].value == 30


def test_a_predicate_whose_answer_has_no_truth_is_a_failure_of_its_value():
    captured = Captured("filter", lambda value: Touchy(value) if value == 2 else True, on_error="dead_letter")
    ports = captured.feed([[1, 2], [1]])
    assert ports["out"] == [[1], [1]]
    assert [letter.value for letter in ports["dead"][0]] == [2]


@given(BUNDLES.filter(lambda bundles: all(value >= 0 for bundle in bundles for value in bundle)))
def test_branch_sends_each_value_to_its_first_port_or_the_rest(bundles):
    ports = Captured("branch", (lambda v: v > 15, lambda v: v > 10)).feed(bundles)
    assert ports == {
        "0": [[v for v in bundle if v > 15] for bundle in bundles],
        "1": [[v for v in bundle if 10 < v <= 15] for bundle in bundles],
        "rest": [[v for v in bundle if v <= 10] for bundle in bundles],
    }


@pytest.mark.parametrize("offender", FAILURES)
def test_a_failing_predicate_of_a_branch_is_a_failure_of_its_value(offender):
    ports = Captured("branch", (is_even,), on_error="dead_letter").feed([[2, offender], [3]])
    assert (ports["0"], ports["rest"]) == ([[2], []], [[], [3]])
    assert [letter.value for letter in ports["dead"][0]] == [offender]


# -- keyed state -----------------------------------------------------------------------------------------------------


def first_letter(word):
    return word[0]


WORDS = [["apple", "bean"], ["avocado"], ["beet", "apple"]]


def test_count_counts_keys():
    assert Captured("count", None).feed([["a", "b"], ["a"]])["out"] == [[("a", 1), ("b", 1)], [("a", 2)]]


def test_count_of_a_key_that_cannot_be_one_is_a_failure():
    ports = Captured("count", None, on_error="skip").feed([["a", []], ["a"]])
    assert ports["out"] == [[("a", 1)], [("a", 2)]]


def test_reduce_begins_with_the_first_value():
    ports = Captured("reduce", max, key=first_letter).feed(WORDS)
    assert ports["out"] == [
        [("a", "apple"), ("b", "bean")],
        [("a", "avocado")],
        [("b", "beet"), ("a", "avocado")],
    ]


def test_a_failed_reduction_leaves_the_state_as_it_was():
    captured = Captured("reduce", lambda a, b: a + tenfold(b), key=lambda _: "k", on_error="skip")
    assert captured.feed([[1], [-1], [2]])["out"] == [[("k", 1)], [], [("k", 21)]]


@pytest.mark.parametrize("result", [None, len])
def test_aggregate(result):
    fn = Aggregation(set, lambda known, word: known | {word}, result)
    ports = Captured("aggregate", fn, key=first_letter).feed(WORDS)
    shown = result or (lambda found: found)
    assert ports["out"][2] == [("b", shown({"bean", "beet"})), ("a", shown({"apple", "avocado"}))]


def test_keyed_process_has_the_state_of_the_key_at_hand():
    def latest(key, value, state):
        before, state.value = state.value, value
        if value == "avocado":
            state.clear()
        return [(key, before)]

    ports = Captured("keyed_process", latest, key=first_letter).feed(WORDS)
    assert ports["out"] == [[("a", None), ("b", None)], [("a", "apple")], [("b", "bean"), ("a", None)]]


def test_a_failing_key_function_is_a_failure_of_its_value():
    captured = Captured("keyed_process", lambda key, value, state: [key], key=first_letter, on_error="skip")
    assert captured.feed([["apple", ""], ["bean"]])["out"] == [["a"], ["b"]]


# -- operators as classes --------------------------------------------------------------------------------------------


class Buffered(Operator):
    tick_every_s = 2.0

    def open(self, ctx):
        self.kept = [ctx.operator]

    def process(self, value):
        self.kept.append(value)

    def tick(self, now_s):
        return (now_s,)

    def close(self):
        yield from self.kept


class Totals(KeyedOperator):
    def process(self, key, value, state):
        state.set((state.get() or 0) + value)
        return [(key, state.get())]


@pytest.mark.parametrize("given_as", [Buffered, Buffered()])
def test_an_operator_class_lives_from_open_to_close(given_as):
    step = Captured("process", given_as).step
    step.open()
    step.feed([1, 2], None)
    assert step.tick_every_s == 2.0
    assert list(step.tick(7.0)) == [7.0]
    assert list(step.close()) == ["process", 1, 2]


def test_each_task_has_a_copy_of_its_own():
    operator = Buffered()
    first, second = Captured("process", operator).step, Captured("process", operator).step
    first.open()
    second.open()
    first.feed([1], None)
    assert list(second.close()) == ["process"]
    assert not hasattr(operator, "kept")


def test_a_keyed_operator_class():
    assert Captured("keyed_process", Totals, key=lambda v: v % 2).feed([[1, 2], [3]])["out"] == [
        [(1, 1), (0, 2)],
        [(1, 4)],
    ]


# -- sinks -----------------------------------------------------------------------------------------------------------


class Picky(Sink):
    def __init__(self):
        self.batches = []

    def write(self, values):
        if any(value in FAILURES for value in values):
            raise OSError("disk full")
        self.batches.append(list(values))


def test_a_sink_gets_whole_batches():
    step = Captured("sink", Picky()).step
    step.feed([1, 2, 3], [2, 1])
    step.feed([], [0])
    assert step.sink.batches == [[1, 2, 3]]


def test_a_failing_sink_ends_the_query():
    with pytest.raises(OperatorError, match=r"'sink', task 0, failed on .*disk full"):
        Captured("sink", Picky()).feed([[1, -1]])


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
def test_a_sink_that_may_fail_is_given_single_values(policy):
    captured = Captured("sink", Picky(), on_error=policy)
    ports = captured.feed([[1, -1], [2]])
    assert captured.step.sink.batches == [[1], [2]]
    assert captured.step.skipped == 1
    if policy == "dead_letter":
        assert [[letter.value for letter in bundle] for bundle in ports["dead"]] == [[-1], []]
