"""Which reports of a worker have come, so that handling them does not depend on their order.

One belongs to every attempt of a worker; the brain asks it before anything of a report is used. Pure.
"""

from __future__ import annotations

from typing import Literal

#: A report that so many newer ones have overtaken is given up.
LATE_MAX = 64

Standing = Literal["newest", "late", "repeated"]


class ReportSequence:
    """The numbers of one attempt's reports."""

    def __init__(self) -> None:
        self._newest = 0
        self._late: set[int] = set()

    def admit(self, sequence: int) -> Standing:
        """Note a report; a late one adds to sums but stands behind a newer one, a repeated one counts for nothing."""
        if sequence > self._newest:
            oldest = sequence - LATE_MAX
            self._late = {each for each in self._late if each >= oldest}
            self._late.update(range(max(self._newest + 1, oldest), sequence))
            self._newest = sequence
            return "newest"
        if sequence in self._late:
            self._late.remove(sequence)
            return "late"
        return "repeated"
