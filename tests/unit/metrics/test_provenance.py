"""Where a figure came from."""

from __future__ import annotations

from tailrace.metrics import provenance


def test_versions_name_what_was_measured_and_what_it_was_measured_beside():
    assert set(provenance.versions({"bytewax": "0.21.1"})) >= {"tailrace", "python", "pyspark", "bytewax"}


def test_a_source_tree_has_a_commit():
    found = provenance.commit()
    assert found is None or len(found.rstrip("+")) == 12
