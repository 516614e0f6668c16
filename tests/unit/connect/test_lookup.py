"""Lookup tables: what cannot be one is named before anything starts."""

from __future__ import annotations

import pytest

import tailrace as tr
from tailrace.connect.errors import LookupTableError


@pytest.mark.parametrize("wrong", ["rows.csv", [{"id": 1}], lambda: {"id": 1}])
def test_what_is_no_dataframe_is_named(wrong):
    with pytest.raises(LookupTableError, match="Spark DataFrame, found"):
        tr.lookup(wrong, key="id")
