"""The word count on a local-cluster of two executors counts what a plain loop counts."""

from __future__ import annotations

import pytest
from tests import sparks
from tests.queries import PATIENT, assert_exact, ended, ending, plain_count, text_path, word_count

import tailrace as tr

pytestmark = pytest.mark.spark


def test_every_sentence_is_counted_exactly():
    path = text_path(whole=True)
    flow, out = word_count(path)
    with ending(tr.start(flow, sparks.session(), workers=4, settings=tr.Settings(**PATIENT))) as query:
        ended(query)
        executors = {member.register.executor for member in query._brain.members.values()}
    assert_exact(out.values, plain_count(path))
    assert len(executors) == 2
    assert query.lastProgress["replays"] == query.lastProgress["pending"] == 0
