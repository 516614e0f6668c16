"""map_batches under each host: Arrow, pandas and Polars, as many rows out as in, sizes that follow the load."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tailrace as tr
from tailrace import testing
from tailrace.connect.errors import WrongSchemaError
from tailrace.testing import TestSource


def arrow_double(batch):
    return batch.set_column(0, "n", pc.multiply(batch.column("n"), 2))


def pandas_double(frame):
    return frame.assign(n=frame.n * 2)


def polars_double(frame):
    return frame.with_columns(frame["n"] * 2)


@pytest.mark.parametrize(("of", "fn"), [("arrow", arrow_double), ("pandas", pandas_double), ("polars", polars_double)])
def test_rows_go_through_a_batch_function(run, of, fn):
    pytest.importorskip(of.replace("arrow", "pyarrow"))
    flow, out = tr.Topology("batches"), tr.sinks.collect()
    rows = flow.source(TestSource([{"n": n, "text": f"t{n}"} for n in range(300)], partitions=2), tasks=2)
    rows.map_batches(fn, of=of, tasks=3).sink(out)
    run(flow)
    assert sorted(out.values, key=lambda row: row["n"]) == [{"n": 2 * n, "text": f"t{n}"} for n in range(300)]


def test_bare_values_are_a_column_called_value():
    flow, out = tr.Topology("bare"), tr.sinks.collect()
    negate = flow.source(TestSource(range(50))).map_batches(
        lambda batch: pa.RecordBatch.from_arrays([pc.negate(batch.column("value"))], ["value"])
    )
    negate.sink(out)
    testing.run(flow)
    assert sorted(out.values) == list(range(-49, 1))


def test_batches_are_small_when_idle_and_large_when_busy():
    flow, out = tr.Topology("sizes"), tr.sinks.collect()
    size = flow.source(tr.sources.rate(100, count=50)).map_batches(sized)
    size.sink(out)
    testing.run(flow)
    assert max(out.values) <= 2
    flow, out = tr.Topology("sizes"), tr.sinks.collect()
    flow.source(TestSource(range(20_000))).map_batches(sized).sink(out)
    testing.run(flow)
    assert max(out.values) >= 256
    assert max(out.values) <= 1024


def sized(batch):
    return pa.RecordBatch.from_pydict({"value": [batch.num_rows] * batch.num_rows})


def test_a_batch_function_that_loses_rows_is_told():
    flow = tr.Topology("loses")
    flow.source(TestSource(range(10))).map_batches(lambda batch: batch.slice(1)).sink(tr.sinks.discard())
    with pytest.raises(WrongSchemaError, match="as many as it gets"):
        testing.run(flow)


def test_one_bad_value_does_not_take_its_batch_along():
    def positive(frame):
        if (frame.value < 0).any():
            raise ValueError("negative")
        return frame

    flow, out, dead = tr.Topology("bad"), tr.sinks.collect(), tr.sinks.collect()
    good = flow.source(TestSource([1, 2, -3, 4])).map_batches(positive, of="pandas", on_error="dead_letter")
    good.sink(out)
    good.dead_letters().map(lambda letter: letter.value).sink(dead)
    testing.run(flow)
    assert (sorted(out.values), dead.values) == ([1, 2, 4], [-3])


def test_an_unknown_kind_of_batch_is_named():
    flow = tr.Topology("kinds")
    with pytest.raises(tr.TailraceError, match="found of='numpy'"):
        flow.source(TestSource([1])).map_batches(str, of="numpy")
