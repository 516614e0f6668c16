"""Properties are checked as in tests/unit: on the same examples in every run, however loaded the machine is."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("tailrace", deadline=None, derandomize=True, max_examples=50, database=None)
settings.load_profile("tailrace")
