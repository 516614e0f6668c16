"""The reference pages say what the sources say: settings, exit codes, progress and metrics."""

from __future__ import annotations

import dataclasses
import re

import pytest
from tests.queries import until

import tailrace as tr
from tailrace.cli import reference
from tailrace.config import Policy, Settings
from tailrace.coordinator.query import Query
from tailrace.metrics.prometheus import render
from tailrace.testing import ProcessHost

MONITORING = (reference.DOCS / "monitoring.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", reference.tables())
def test_the_page_is_what_the_sources_say(name):
    page = (reference.DOCS / name).read_text(encoding="utf-8")
    assert page == reference.filled(page, reference.tables()[name]), f"{name} is stale: run {reference.COMMAND}"


@pytest.mark.parametrize("cls", [Settings, Policy])
def test_every_field_is_explained_with_its_default(cls):
    table = reference.settings_table(cls)
    for field in dataclasses.fields(cls):
        (row,) = re.findall(rf"^\| `{field.name}` \| `(.*?)` \| (.+?) \| (.+?) \|$", table, re.MULTILINE)
        assert eval(row[0]) == field.default
        assert row[2].strip(), f"{field.name} has no #: comment in config.py"


def test_every_error_has_its_code_in_the_table():
    rows = dict(re.findall(r"^\| (\d+) \| (.*) \|$", reference.exit_table(), re.MULTILINE))
    errors = reference._errors()
    assert len(errors) > 50
    for error in errors:
        assert f"`{error.__name__}`: " in rows[str(error.exit_code)]


@pytest.fixture(scope="module")
def progress():
    flow = tr.Topology("watched")
    flow.source(tr.sources.items(range(100))).map(abs, tasks=2).sink(tr.sinks.collect())
    query = Query(flow, ProcessHost(2), Policy(), Settings(progress_s=0.1)).start()
    query.awaitTermination()
    until(lambda: query.lastProgress is not None, "a report", query)
    return query.lastProgress


def test_every_key_of_a_report_is_on_the_page(progress):
    for key in progress:
        assert f"`{key}`" in MONITORING


def test_the_page_has_every_metric_and_no_other(progress):
    shown = set(re.findall(r"^# TYPE (\w+) (?:counter|gauge)$", render("watched", progress), re.MULTILINE))
    assert shown
    assert shown == set(re.findall(r"^\| `(tailrace_\w+)` \|", MONITORING, re.MULTILINE))
    for kind in ("counter", "gauge"):
        for name in re.findall(rf"^# TYPE (\w+) {kind}$", render("watched", progress), re.MULTILINE):
            assert f"| `{name}` | {kind} |" in MONITORING
