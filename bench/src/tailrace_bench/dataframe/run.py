"""``tailrace bench dataframe``: a topology in a PySpark pipeline beside Spark's own Python UDFs.

Rows per second over a bounded DataFrame, from Parquet into nothing; and open loop, from a socket, how old a row is when
it is out. The case names the UDF it is held against. The chain of the bounded case runs inside Spark's tasks; what the
same chain does through workers, and how long rows take that come through Spark's micro-batches, is in rows of its own.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.data import wiki_path
from tailrace.spark.session import embedded, end_embedded, end_jvm
from tailrace_bench.bench import Bench, Timed
from tailrace_bench.measurement import plan as times
from tailrace_bench.reporting.rows import make_row

from .arms import PANDAS, STREAMED, TASKS, UDF, WORKERS, OpenLoopArm, seconds_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace_bench.measurement.pace import Pace
    from tailrace_bench.measurement.plan import ComparisonTimes
    from tailrace_bench.reporting.rows import Row

CASES = (UDF, PANDAS, WORKERS, STREAMED)
#: At least this share of Spark's speed on a bounded DataFrame.
SPEED_BAR = 0.8
#: At most this share of the micro-batch's p99.
TAIL_BAR = 0.05
PER_S = 500
_SLOTS = 6
_BOUNDED = (UDF, PANDAS, TASKS, WORKERS)
_OPEN = (UDF, PANDAS, WORKERS, STREAMED)
_STEP_S = 4.0


def sentences() -> list[str]:
    """The excerpt that ships with the package."""
    return wiki_path().read_text(encoding="utf-8").splitlines()


def _rows_count(plan: ComparisonTimes) -> int:
    return 1_000_000 if plan.sustain else 400_000


def _offer_s(plan: ComparisonTimes) -> float:
    return plan.offers_s[500]


def planned_s(plan: ComparisonTimes, _only: str | None = None) -> float:
    """About how long it takes."""
    bounded_s = len(_BOUNDED) * (plan.repeats + 1) * (6.0 if plan.sustain else 2.0)
    open_s = len(_OPEN) * (plan.repeats + 1) * (_offer_s(plan) + _STEP_S)
    return times.SPARK_S + bounded_s + open_s


def rows(plan: ComparisonTimes, pace: Pace, only: str | None = None) -> list[Row]:
    """Run both comparisons; their arms are the same in all cases, so one case takes as long as all."""
    with _spark(pace) as (spark, folder):
        speeds = _speeds(spark, folder, plan, pace)
        tails = _tails(spark, folder, plan, pace)
    return [row for row in (*_speed_rows(speeds), *_tail_rows(tails)) if only in {None, row["case"]}]


@contextlib.contextmanager
def _spark(pace: Pace) -> Iterator[tuple[Any, str]]:
    folder = tempfile.mkdtemp(prefix="tailrace-bench-")
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        log = stack.enter_context(Path(folder, "spark.log").open("ab"))
        pace.step("Starting Spark", times.SPARK_S)
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        spark = embedded(_SLOTS, log)
        stack.callback(end_jvm)
        stack.callback(end_embedded, spark)
        yield spark, folder


def _speeds(spark: Any, folder: str, plan: ComparisonTimes, pace: Pace) -> dict[str, list[float]]:
    count, texts = _rows_count(plan), sentences()
    pace.step("Writing the rows", 0)
    lines = spark.createDataFrame(list(enumerate(texts)), "line long, text string")
    numbers = spark.range(0, count, numPartitions=4).selectExpr("id", f"id % {len(texts)} as line")
    numbers.join(lines.hint("broadcast"), "line").select("id", "text").write.parquet(f"{folder}/rows")
    df = spark.read.parquet(f"{folder}/rows")
    speeds: dict[str, list[float]] = {kind: [] for kind in _BOUNDED}
    for repeat in range(-1, plan.repeats):  # the first warms up
        for kind in _BOUNDED if repeat % 2 == 0 else reversed(_BOUNDED):
            pace.step(f"Bounded, repeat {repeat + 1} of {plan.repeats}: {kind}", 6.0 if plan.sustain else 2.0)
            seconds = seconds_for(kind, df)
            if repeat >= 0:
                speeds[kind].append(count / seconds)
    return speeds


def _tails(spark: Any, folder: str, plan: ComparisonTimes, pace: Pace) -> dict[str, list[list[float]]]:
    tails: dict[str, list[list[float]]] = {kind: [] for kind in _OPEN}
    with contextlib.ExitStack() as stack:
        arms: dict[str, OpenLoopArm] = {}
        for kind in _OPEN:
            arms[kind] = OpenLoopArm(kind, spark, folder, sentences())
            stack.callback(arms[kind].close)
        for repeat in range(-1, plan.repeats):
            for kind in _OPEN if repeat % 2 == 0 else reversed(_OPEN):
                pace.step(f"{PER_S}/s, repeat {repeat + 1} of {plan.repeats}: {kind}", _offer_s(plan) + _STEP_S)
                found = arms[kind].offer(PER_S, _offer_s(plan))
                if repeat >= 0:
                    cuts = statistics.quantiles(found, n=100)
                    tails[kind].append([cuts[49] / 1000, cuts[98] / 1000])
    return tails


def _speed_rows(speeds: dict[str, list[float]]) -> list[Row]:
    found = [
        make_row(
            case, "rows_per_s", "rows/s", speeds[TASKS], better="higher", baseline=f"spark {case}", base=speeds[case],
            bar=SPEED_BAR,
        )
        for case in (UDF, PANDAS)
    ]  # fmt: skip
    best = max((UDF, PANDAS), key=lambda case: statistics.median(speeds[case]))
    workers = make_row(
        WORKERS, "rows_per_s", "rows/s", speeds[WORKERS], better="higher", baseline=f"spark {best}", base=speeds[best]
    )
    return [*found, workers]


def _tail_rows(tails: dict[str, list[list[float]]]) -> list[Row]:
    found = []
    for at, metric, bar in ((0, "p50_ms", None), (1, "p99_ms", TAIL_BAR)):
        column = {kind: [cut[at] for cut in cuts] for kind, cuts in tails.items()}
        found += [
            make_row(
                case,
                metric,
                "ms",
                column[WORKERS],
                better="lower",
                baseline=f"spark {case}",
                base=column[case],
                bar=bar,
            )
            for case in (UDF, PANDAS)
        ]
        found.append(
            make_row(
                STREAMED, metric, "ms", column[STREAMED], better="lower", baseline=f"spark {UDF}", base=column[UDF]
            )
        )
    return found


NOTES = [
    """Bounded: the chain of two functions runs inside Spark's tasks, as flow.apply decides for stateless chains; \
'workers' is the same chain through 2 workers and a table, with the start of the query.""",
    """Open loop: rows are made at a socket. The topology reads it record at a time; a row is out when it is on disk \
in its table; 'dataframe_in' takes rows through Spark's micro-batches into the topology, so it waits for those.""",
]

BENCH = Bench("dataframe", Timed(times.QUICK, times.FULL, planned_s, rows, NOTES), CASES)
