"""Reads ``claims.toml``: what each paper claims, the figure it prints, and which simulation or bench shows it here.

The file lies in this room, so that an installed package has it too; docs/claims.toml is a link to it. Pure but for
reading that file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from tailrace.errors import nearest

from .errors import ClaimsFileError, UnknownPaperError
from .jobs import Job

if TYPE_CHECKING:
    from collections.abc import Sequence

CLAIMS_FILE = Path(__file__).with_name("claims.toml")


class Paper(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One paper; ``id`` names its page."""

    id: str
    title: str
    about: str


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One sentence of a paper with a figure in it, and where the same figure of ours is found."""

    id: str
    paper: str
    section: str
    claim: str
    #: As the paper prints it.
    figure: str
    #: The same as a ratio to the baseline, or as a value where ``measure`` says so.
    theirs: float
    #: Ratio or value at which nothing of the claim is left.
    nothing: float = 1.0
    #: As in ``simulate slots`` or ``bench balance b``.
    run: str
    case: str
    metric: str
    #: The arm of a simulation; benches name theirs in the case.
    arm: str = ""
    baseline: str = ""
    measure: Literal["ratio", "value"] = "ratio"
    #: A claim the paper makes; or something it says nothing about that decides whether the claim is worth anything.
    headline: bool = False
    #: Two sentences for the page where the claim does not hold, or holds but smaller.
    why: str
    #: Said beside the figure in any case: how the setting differs from the paper's.
    note: str = ""

    @property
    def job(self) -> Job:
        """What has to be run."""
        return Job.parse(self.run)


class Plot(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A figure of a page: panels of a simulation by title, or a bench's rows whose cases match an expression.

    The expression names its groups ``x`` and ``line``; ``x`` may be a number or a name.
    """

    id: str
    paper: str
    title: str
    run: str
    panels: tuple[str, ...] = ()
    metric: str = ""
    case: str = ""
    baseline: str = ""
    #: What the rows' own values are called.
    ours: str = "ours"
    x_label: str = ""
    y_label: str = ""
    log_x: bool = False
    log_y: bool = False

    @property
    def job(self) -> Job:
        """What has to be run."""
        return Job.parse(self.run)


class Duration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long a job takes on two cores, for the time left and for its limit."""

    run: str
    quick_s: float
    full_s: float


class Claims(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of the file."""

    paper: tuple[Paper, ...]
    claim: tuple[Claim, ...]
    plot: tuple[Plot, ...] = ()
    duration: tuple[Duration, ...] = ()

    def only(self, papers: Sequence[str]) -> Claims:
        """Keep some of the papers; none named keeps all."""
        known = [paper.id for paper in self.paper]
        for name in papers:
            if name not in known:
                raise UnknownPaperError(f"A paper is one of {', '.join(known)}; found {name!r}.", nearest(name, known))
        if not papers:
            return self
        return Claims(
            tuple(paper for paper in self.paper if paper.id in papers),
            tuple(claim for claim in self.claim if claim.paper in papers),
            tuple(plot for plot in self.plot if plot.paper in papers),
            self.duration,
        )

    def jobs(self) -> list[Job]:
        """What all of it needs, each once, in the order of the claims."""
        return list(dict.fromkeys([*(claim.job for claim in self.claim), *(plot.job for plot in self.plot)]))

    def planned_s(self, job: Job, *, quick: bool) -> float:
        """About how long a job takes."""
        found = next((each for each in self.duration if each.run == job.text), None)
        if found is None:
            return 60.0 if quick else 600.0
        return found.quick_s if quick else found.full_s


def read_claims(file: Path = CLAIMS_FILE) -> Claims:
    """Read and check the file."""
    try:
        claims = msgspec.toml.decode(file.read_bytes(), type=Claims)
    except (OSError, msgspec.DecodeError) as error:
        raise ClaimsFileError(f"{file.name} cannot be read: {error}.", "See the comment at its top.") from error
    _check(claims, file.name)
    return claims


def _check(claims: Claims, name: str) -> None:
    papers = {paper.id for paper in claims.paper}
    for kind, ids in (
        ("paper", [each.id for each in claims.paper]),
        ("claim", [each.id for each in claims.claim]),
        ("plot", [each.id for each in claims.plot]),
    ):
        twice = next((each for each in ids if ids.count(each) > 1), None)
        if twice is not None:
            raise ClaimsFileError(f"{name}: the {kind} {twice!r} is there twice.", "Give each an id of its own.")
    for own, paper, run in [(each.id, each.paper, each.run) for each in claims.claim] + [
        (each.id, each.paper, each.run) for each in claims.plot
    ]:
        if paper not in papers:
            raise ClaimsFileError(f"{name}: {own!r} names the paper {paper!r}.", nearest(paper, papers))
        Job.parse(run)
    for claim in claims.claim:
        if claim.theirs == claim.nothing:
            raise ClaimsFileError(
                f"{name}: {claim.id!r} has theirs and nothing both at {claim.theirs:g}, so it claims nothing.",
                "Let 'nothing' be the figure at which nothing of the claim is left.",
            )
        if claim.measure == "ratio" and not claim.baseline:
            raise ClaimsFileError(f"{name}: {claim.id!r} is a ratio to no baseline.", "Name one, or measure a value.")
