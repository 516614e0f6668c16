"""How many examples a property is checked on: some in every run, many in a long one (``make test-long``).

The examples are the same in every run of a kind, however loaded the machine is.
"""

from __future__ import annotations

import os

from hypothesis import settings

LONG = os.environ.get("TAILRACE_EXAMPLES") == "many"
SOME, MANY = 25, 250

settings.register_profile("some", deadline=None, derandomize=True, max_examples=SOME, database=None)
settings.register_profile("many", parent=settings.get_profile("some"), max_examples=MANY)


def examples(many):
    """Check a property on so many examples in a long run, and on a quarter of them in every run."""
    return settings(max_examples=many if LONG else max(min(many, SOME), many // 4))
