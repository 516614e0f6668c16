"""Properties are checked as in tests/unit: on the same examples in every run, however loaded the machine is."""

from __future__ import annotations

from hypothesis import settings
from tests.properties import LONG

settings.load_profile("many" if LONG else "some")
