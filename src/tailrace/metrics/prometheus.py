"""A query's progress as Prometheus text. Pure; ``page`` shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_QUANTILES = {"p50_ms": "0.5", "p90_ms": "0.9", "p99_ms": "0.99", "p999_ms": "0.999"}
_TASK_GAUGES = {
    "inPerSecond": "tailrace_task_in_per_second",
    "outPerSecond": "tailrace_task_out_per_second",
    "utilisation": "tailrace_task_utilisation",
    "cpuPerTuple_us": "tailrace_task_cpu_per_tuple_microseconds",
    "service_us": "tailrace_task_service_microseconds",
    "waiting_us": "tailrace_task_waiting_microseconds",
    "inbox": "tailrace_task_inbox_tuples",
    "outbox": "tailrace_task_outbox_tuples",
    "outboxBytes": "tailrace_task_outbox_bytes",
}
_COUNTERS = {
    "read": "read",
    "completed": "completed",
    "replays": "replays",
    "duplicates": "duplicates",
    "skipped": "skipped",
    "deadLetters": "dead_letters",
    "lostState": "lost_state_tasks",
}


def render(query: str, progress: dict[str, Any] | None) -> str:
    """Write a progress report in the text format; empty before the first."""
    return "".join(f"{line}\n" for line in _lines(query, progress)) if progress else ""


def _lines(query: str, progress: dict[str, Any]) -> Iterator[str]:
    for name, metric in _COUNTERS.items():
        yield f"# TYPE tailrace_{metric}_total counter"
        yield f"tailrace_{metric}_total{_labels(query=query)} {progress[name]}"
    yield "# TYPE tailrace_pending gauge"
    yield f"tailrace_pending{_labels(query=query)} {progress['pending']}"
    yield "# TYPE tailrace_stuck_calls gauge"
    yield f"tailrace_stuck_calls{_labels(query=query)} {len(progress['stuck'])}"
    yield from _durability(query, progress["checkpoints"], progress["recoveries"])
    yield "# TYPE tailrace_complete_latency_seconds gauge"
    for name, quantile in _QUANTILES.items():
        seconds = progress["latency"][name] / 1000
        yield f"tailrace_complete_latency_seconds{_labels(query=query, quantile=quantile)} {seconds}"
    for name, metric in _TASK_GAUGES.items():
        yield f"# TYPE {metric} gauge"
        for row in progress["tasks"]:
            labels = _labels(query=query, operators="+".join(row["operators"]), task=row["task"], worker=row["worker"])
            yield f"{metric}{labels} {row[name]}"
    for name in ("tuples", "bytes"):
        yield f"# TYPE tailrace_edge_{name}_total counter"
        for row in progress["edges"]:
            yield f"tailrace_edge_{name}_total{_labels(query=query, src=row['from'], dst=row['to'])} {row[name]}"


def _durability(query: str, checkpoints: dict[str, Any], recoveries: dict[str, Any]) -> Iterator[str]:
    newest = recoveries["newest"][-1] if recoveries["newest"] else None
    age_s = checkpoints["age_s"]
    rows = (
        ("checkpoints_total", "counter", checkpoints["durable"]),
        ("checkpoint_failures_total", "counter", checkpoints["failures"]),
        ("checkpoint_age_seconds", "gauge", "NaN" if age_s is None else age_s),
        ("checkpoint_duration_seconds", "gauge", checkpoints["duration_ms"] / 1000),
        ("checkpoint_size_bytes", "gauge", checkpoints["size_bytes"]),
        ("recoveries_total", "counter", recoveries["count"]),
        ("recovery_duration_seconds", "gauge", "NaN" if newest is None else newest["took_ms"] / 1000),
    )
    for name, kind, value in rows:
        yield f"# TYPE tailrace_{name} {kind}"
        yield f"tailrace_{name}{_labels(query=query)} {value}"


def _labels(**labels: object) -> str:
    escaped = {
        name: str(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for name, value in labels.items()
    }
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}"
