"""Heads of bundles from plain columns, as tests write them down."""

from __future__ import annotations

from tailrace.batch import Batch, numbers


def heads_of(roots, incs, lineages):
    """Put three columns in a row."""
    return numbers(number for head in zip(roots, incs, lineages, strict=True) for number in head)


def batch_of(values, sizes, roots, incs, lineages):
    """Make a batch from its columns."""
    return Batch(values, sizes, heads_of(roots, incs, lineages))
