"""``tailrace papers``: every claim of the papers, by one command; the main command mounts ``papers``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from .claims import read_claims
from .jobs import find
from .pages import number, write_pages
from .readme import write_verdicts
from .runner import OVER, lanes, polite_end, run_all, taken_over
from .store import Store, source_digest
from .verdict import VERDICTS, Judged, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from typing_extensions import Self

    from .claims import Claim
    from .jobs import Job
    from .runner import JobOutcome

RESULTS = Path("docs/results")
README = Path("README.md")
_SECONDS_PER_MINUTE = 60


def papers(
    quick: Annotated[bool, typer.Option("--quick", help="Short runs, under 45 minutes in all on 2 cores.")] = False,
    only: Annotated[str, typer.Option(help="These papers only, such as hone,lever.", metavar="PAPER,...")] = "",
    fresh: Annotated[bool, typer.Option("--fresh", help="Run what an earlier run has found, too.")] = False,
    no_run: Annotated[bool, typer.Option("--no-run", help="Write pages from what earlier runs found.")] = False,
    out: Annotated[Path, typer.Option(help="Where pages, plots and raw figures go.", metavar="FOLDER")] = RESULTS,
) -> None:
    """Run what the papers claim and write a page with a verdict for each; goes on where it was interrupted."""
    claims = read_claims().only([name.strip() for name in only.split(",") if name.strip()])
    console = Console(width=None if Console().is_terminal else 160)
    store = Store(out / "raw", source_digest(), quick=quick)
    if no_run:
        outcomes = taken_over(claims.jobs(), store)
    else:
        with polite_end(), Watch(console, claims.jobs(), lambda job: claims.planned_s(job, quick=quick)) as watch:
            outcomes = run_all(
                claims.jobs(), store, lambda job: claims.planned_s(job, quick=quick),
                quick=quick, fresh=fresh, tell=watch.tell,
            )  # fmt: skip
    judged = [judge_one(claim, outcomes) for claim in claims.claim]
    written = write_pages(out, claims, judged, outcomes, quick=quick, whole=not only)
    # Results that were asked for elsewhere are not the project's.
    if not only and out == RESULTS and write_verdicts(README, out, claims, judged):
        written.append(README)
    show(console, judged)
    console.print(f"Written: {', '.join(str(file) for file in written)}", highlight=False)


def judge_one(claim: Claim, outcomes: Mapping[Job, JobOutcome]) -> Judged:
    """Look a claim's figure up and judge it."""
    outcome = outcomes[claim.job]
    if outcome.result is None:
        return judge(claim, None, outcome.reason)
    figure = find(
        outcome.result["document"],
        case=claim.case, arm=claim.arm, metric=claim.metric, baseline=claim.baseline, ratio=claim.measure == "ratio",
    )  # fmt: skip
    where = f"{claim.case}{', ' + claim.arm if claim.arm else ''}: {claim.metric}"
    return judge(claim, figure, "" if figure else f"`{claim.run}` gave no figure for {where}")


def show(console: Console, judged: Sequence[Judged]) -> None:
    """One line per claim, and how many there are of each verdict."""
    table = Table("paper", "claim", "theirs", "ours", "verdict")
    for each in judged:
        ours = each.reason if each.figure is None else number(each.figure.ours)
        table.add_row(each.claim.paper, each.claim.claim, number(each.claim.theirs), ours, each.verdict)
    console.print(table)
    counts = (f"{sum(each.verdict == verdict for each in judged)} {verdict}" for verdict in VERDICTS)
    console.print(", ".join(counts), highlight=False)


class Watch:
    """A bar over all jobs with the time left, and one line per job where there is no terminal."""

    def __init__(self, console: Console, jobs: Sequence[Job], planned_s: Callable[[Job], float]) -> None:
        self._console = console
        # Jobs that run beside each other take their part of the time.
        self._planned_s = {job: planned_s(job) / lanes(job) for job in jobs}
        self._left_s = dict(self._planned_s)
        self._all_s = max(1.0, sum(self._left_s.values()))
        self._running: list[Job] = []
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._bar = self._progress.add_task("", total=self._all_s, left="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def tell(self, job: Job, passed_s: float) -> None:
        """Hear which job runs, and for how long, or that it is over."""
        if passed_s == OVER:
            self._left_s[job] = 0.0
            self._running = [other for other in self._running if other != job]
        else:
            # A job that takes longer than planned is still not over.
            self._left_s[job] = max(1.0, self._planned_s[job] - passed_s / lanes(job))
            if job not in self._running:
                self._running.append(job)
                if not self._console.is_terminal:
                    self._console.print(f"{self._left():>16}  {job.text}", highlight=False, markup=False)
        self._progress.update(
            self._bar, completed=self._all_s - sum(self._left_s.values()),
            description=", ".join(each.text for each in self._running), left=self._left(),
        )  # fmt: skip

    def _left(self) -> str:
        minutes, seconds = divmod(round(sum(self._left_s.values())), _SECONDS_PER_MINUTE)
        return f"{minutes} min {seconds:02} s left" if minutes else f"{seconds} s left"
