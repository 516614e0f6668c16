"""Operators without keys: map, filter, flat_map, process, union and branch."""

from __future__ import annotations

import collections

import tailrace as tr
from tailrace.testing import TestSink, TestSource
from tailrace.topology.contracts import Reader, Records, Source


def test_map_filter_and_flat_map(run):
    flow, out = tr.Topology("plain"), tr.sinks.collect()
    numbers = flow.source(TestSource(range(200), partitions=2), tasks=2)
    odd = numbers.map(lambda v: v + 1).filter(lambda v: v % 2, tasks=3)
    odd.flat_map(lambda v: [v] * (v % 3), tasks=2).sink(out)
    run(flow)
    wanted = collections.Counter({v: v % 3 for v in range(1, 201, 2) if v % 3})
    assert collections.Counter(out.values) == wanted


def test_builtins_partials_and_callables_serve_as_functions(run):
    class Add:
        def __init__(self, more):
            self.more = more

        def __call__(self, value):
            return value + self.more

    flow, out = tr.Topology("callables"), tr.sinks.collect()
    flow.source(TestSource(["a b", "c"])).flat_map(str.split).map(str.upper).map(Add("!")).sink(out)
    run(flow)
    assert sorted(out.values) == ["A!", "B!", "C!"]


def test_a_function_as_process_gives_any_number_of_values_or_none(run):
    def digits(value):
        return None if value % 2 else (value, -value)

    flow, out = tr.Topology("function"), tr.sinks.collect()
    flow.source(TestSource(range(6))).process(digits, tasks=2).sink(out)
    run(flow)
    assert sorted(out.values) == [-4, -2, 0, 0, 2, 4]


class UntilTwoFiles(Source):
    """Numbers, one every 5 ms, until there are two files in a folder: the flow ends by an outcome, not by a time."""

    def __init__(self, folder):
        self.folder = folder

    def partitions(self):
        return ["all"]

    def open(self, partition, offset, clock):
        return _UntilTwoFiles(self.folder, offset, clock)


class _UntilTwoFiles(Reader):
    finished = False

    def __init__(self, folder, offset, clock):
        self.folder, self.next, self.clock, self.due_ns = folder, offset, clock, 0

    def wait_s(self):
        return max(0.0, (self.due_ns - self.clock.now_ns()) / 1e9)

    def read(self, max_records):
        number, self.next = self.next, self.next + 1
        self.due_ns = self.clock.now_ns() + 5_000_000
        self.finished = len(list(self.folder.iterdir())) >= 2
        return Records([number], [number])


class Tally(tr.Operator):
    """Counts its values, says so at each tick and at the end; knows its task."""

    tick_every_s = 0.02

    def __init__(self, folder):
        self.folder = folder

    def open(self, ctx):
        self.ctx, self.seen = ctx, 0

    def process(self, value):
        self.seen += 1
        return [("seen", self.ctx.task, value)]

    def tick(self, now_s):
        (self.folder / str(self.ctx.task)).touch()
        return [("tick", self.ctx.task, now_s)]

    def close(self):
        return [("closed", self.ctx.task, self.seen)]


def test_a_class_is_opened_ticked_and_closed_in_each_task(run, tmp_path):
    flow, out = tr.Topology("class"), tr.sinks.collect()
    flow.source(UntilTwoFiles(tmp_path)).process(Tally(tmp_path), tasks=2).sink(out)
    run(flow)
    kinds = collections.defaultdict(list)
    for kind, task, value in out.values:
        kinds[kind].append((task, value))
    assert sorted(value for _, value in kinds["seen"]) == list(range(len(kinds["seen"])))
    assert {task for task, _ in kinds["tick"]} == {0, 1}
    per_task = collections.Counter(task for task, _ in kinds["seen"])
    assert sorted(kinds["closed"]) == [(0, per_task[0]), (1, per_task[1])]


def test_each_task_has_a_copy_of_an_operator_given_as_an_object(run):
    class First(tr.Operator):
        def __init__(self):
            self.values = []

        def process(self, value):
            self.values.append(value)

        def close(self):
            return [len(self.values)]

    flow, out = tr.Topology("copies"), tr.sinks.collect()
    flow.source(TestSource(range(100))).broadcast().process(First(), tasks=3).sink(out)
    run(flow)
    assert out.values == [100, 100, 100]


def test_a_union_is_all_of_its_streams(run):
    flow, out = tr.Topology("union"), tr.sinks.collect()
    a = flow.source(TestSource(["a"] * 30), name="a")
    b = flow.source(TestSource(["b"] * 20), name="b", tasks=1).map(str.upper)
    a.union(b).map(lambda v: v + "!", tasks=2).sink(out)
    run(flow)
    assert collections.Counter(out.values) == {"a!": 30, "B!": 20}


def test_a_branch_gives_each_value_to_the_first_that_wants_it(run):
    flow = tr.Topology("branch")
    small, even, rest = flow.source(TestSource(range(20))).branch(lambda v: v < 5, lambda v: v % 2 == 0, tasks=2)
    sinks = [TestSink() for _ in range(3)]
    for stream, sink in zip((small, even, rest), sinks, strict=True):
        stream.sink(sink)
    run(flow)
    assert [sorted(sink.values) for sink in sinks] == [[0, 1, 2, 3, 4], [*range(6, 20, 2)], [*range(5, 20, 2)]]


def test_a_stream_read_twice_gives_everything_to_both(run):
    flow, left, right = tr.Topology("fork"), tr.sinks.collect(), tr.sinks.collect()
    numbers = flow.source(TestSource(range(50)))
    numbers.map(lambda v: -v, tasks=2).sink(left)
    numbers.filter(lambda v: v > 40).sink(right)
    run(flow)
    assert sorted(left.values) == sorted(-v for v in range(50))
    assert sorted(right.values) == list(range(41, 50))


def test_values_keep_their_types_on_the_way(run):
    sent = [1, True, 1.5, "x", b"y", None, (1, "a"), [1], {"k": (2,)}, 2**70, frozenset({3}), "\ud800"]
    flow, out = tr.Topology("types"), tr.sinks.collect()
    flow.source(TestSource(sent)).shuffle().map(lambda v: v, tasks=2).sink(out, tasks=1)
    run(flow)
    assert sorted(map(repr, out.values)) == sorted(map(repr, sent))
    assert sorted(map(str, map(type, out.values))) == sorted(map(str, map(type, sent)))


def test_a_source_with_nothing_in_it_ends(run):
    flow, out = tr.Topology("nothing"), tr.sinks.collect()
    flow.source(TestSource()).map(str, tasks=2).sink(out)
    run(flow)
    assert out.values == []
