"""The claims file: that it can be run as it stands, that each paper's headline is measured, and how errors look."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.simulate.scenarios.catalogue import SCENARIOS
from tailrace_bench.papers.claims import CLAIMS_FILE, read_claims
from tailrace_bench.papers.errors import ClaimsFileError, UnknownPaperError
from tailrace_bench.papers.jobs import Job

ROOT = Path(__file__).parents[3]
PAPERS = ("hone", "du-gupta", "lever", "stromax", "turbostream")


@pytest.fixture(scope="module")
def claims():
    return read_claims()


def test_the_documented_file_is_the_packaged_one():
    assert (ROOT / "docs" / "claims.toml").resolve() == CLAIMS_FILE.resolve()


def test_every_paper_has_a_headline_on_the_runtime(claims):
    for paper in PAPERS:
        assert any(each.paper == paper and each.headline and each.job.kind == "bench" for each in claims.claim), paper


def test_every_simulation_exists_and_every_claim_says_why_in_two_sentences(claims):
    for claim in claims.claim:
        assert claim.job.kind == "bench" or claim.job.name in SCENARIOS, claim.id
        assert len([part for part in claim.why.split(". ") if part]) >= 2, claim.id


def test_a_quick_run_is_planned_within_45_minutes_and_every_job_has_its_time(claims):
    known = {each.run for each in claims.duration}
    assert all(job.text in known for job in claims.jobs())
    assert sum(claims.planned_s(job, quick=True) for job in claims.jobs()) < 45 * 60


def test_only_keeps_the_papers_asked_for(claims):
    some = claims.only(["hone"])
    assert {each.paper for each in some.claim} == {"hone"}
    assert len(some.jobs()) < len(claims.jobs())
    with pytest.raises(UnknownPaperError, match="stromax"):
        claims.only(["stromx"])


GOOD = """
[[paper]]
id = "p"
title = "t"
about = "a"
[[claim]]
id = "c"
paper = "p"
section = "1"
claim = "it is quicker"
figure = "-50 %"
theirs = 0.5
run = "simulate slots"
case = "x"
arm = "y"
metric = "m"
baseline = "b"
why = "One. Two."
"""


def read(tmp_path, text):
    file = tmp_path / "claims.toml"
    file.write_text(text)
    return read_claims(file)


def test_a_small_file_is_read(tmp_path):
    assert read(tmp_path, GOOD).claim[0].job == Job("simulate", "slots")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("theirs = 0.5", "theirs = 1.0", "claims nothing"),
        ('paper = "p"', 'paper = "q"', "names the paper 'q'"),
        ('run = "simulate slots"', 'run = "guess slots"', "found 'guess slots'"),
        ('baseline = "b"', "", "ratio to no baseline"),
        ("theirs =", "thiers =", "thiers"),
        ("[[claim]]", GOOD.partition("[[claim]]")[1] + GOOD.partition("[[claim]]")[2] + "[[claim]]", "twice"),
    ],
)
def test_mistakes_are_named(tmp_path, old, new, said):
    with pytest.raises(ClaimsFileError, match=said):
        read(tmp_path, GOOD.replace(old, new, 1))
