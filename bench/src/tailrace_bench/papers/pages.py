"""Writes a page per paper: a table of claims with figures and verdicts, the reasons, plots, and what it was run on.

Called by ``cli`` with everything judged; writes below one folder and reads nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .plots import draw
from .verdict import FAILS, NOT_RUN, SMALLER, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from .claims import Claims, Paper
    from .jobs import Figure, Job
    from .runner import JobOutcome
    from .verdict import Judged

_PLAIN_FROM = 1000
_INDEX = "README.md"
_READING = (
    "Ratios below 1 are less than the baseline's; a claim holds when nine tenths of the paper's gain or more are found "
    "here, and holds but smaller when a tenth is. Bold claims are the paper's headlines."
)


def write_pages(
    folder: Path,
    claims: Claims,
    judged: Sequence[Judged],
    outcomes: Mapping[Job, JobOutcome],
    *,
    quick: bool,
    whole: bool,
) -> list[Path]:
    """Write all pages and plots, and a summary if these are the whole of the papers; gives the pages."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for paper in claims.paper:
        own = [each for each in judged if each.claim.paper == paper.id]
        page = folder / f"{paper.id}.md"
        page.write_text(_page(folder, paper, claims, own, outcomes, quick=quick), encoding="utf-8")
        written.append(page)
    if whole:
        index = folder / _INDEX
        index.write_text(_summary(claims, judged, quick=quick), encoding="utf-8")
        written.append(index)
    return written


def number(value: float | None) -> str:
    """Three digits that mean something."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= _PLAIN_FROM else f"{value:.3g}"


def _page(
    folder: Path,
    paper: Paper,
    claims: Claims,
    judged: Sequence[Judged],
    outcomes: Mapping[Job, JobOutcome],
    *,
    quick: bool,
) -> str:
    parts = [
        f"# {paper.title}\n\n{paper.about}\n",
        f"Written by {_command(paper.id, quick=quick)}. {_READING}\n",
        _table(judged, outcomes, quick=quick),
        _reasons(judged),
        _figures(folder, paper, claims, outcomes),
        _foot(judged, outcomes, quick=quick),
    ]
    return "\n".join(part for part in parts if part)


def _command(only: str = "", *, quick: bool) -> str:
    return f"`tailrace papers{' --quick' if quick else ''}{f' --only {only}' if only else ''}`"


def _table(judged: Sequence[Judged], outcomes: Mapping[Job, JobOutcome], *, quick: bool) -> str:
    lines = ["| claim | their figure | ours | how it was measured | verdict |", "|---|---|---|---|---|"]
    for each in judged:
        claim = each.claim
        said = f"**{claim.claim}**" if claim.headline else claim.claim
        ours = "-" if each.figure is None else _ours(each.figure, each.claim.measure, each.claim.baseline)
        result = outcomes[claim.job].result
        # What was run, which an older version may have run otherwise than this one would.
        ran = result["run"] if result else claim.job.shown(quick=quick)
        how = f"`{ran}`: {claim.case}{', ' + claim.arm if claim.arm else ''}, {claim.metric}"
        kind = "simulated" if claim.job.kind == "simulate" else "runtime"
        note = f". {claim.note}" if claim.note else ""
        verdict = f"{each.verdict}: {each.reason}" if each.verdict == NOT_RUN else f"**{each.verdict}**"
        lines.append(f"| {said} ({claim.section}) | {claim.figure} | {ours} | {kind}, {how}{note} | {verdict} |")
    return "\n".join(lines) + "\n"


def _ours(figure: Figure, measure: str, baseline: str) -> str:
    if measure == "value":
        return f"{number(figure.ours)} ({_repeats(figure)})"
    values = f"{number(figure.value)} against {number(figure.baseline_value)}"
    return f"{figure.ours:.3f} of {baseline} ({values}; {_repeats(figure)})"


def _repeats(figure: Figure) -> str:
    runs = f"{figure.repeats} run{'' if figure.repeats == 1 else 's'}"
    if isinstance(figure.spread, list):
        return f"{runs}, {number(figure.spread[0])} to {number(figure.spread[-1])}"
    return f"{runs}, spread {number(figure.spread)}" if figure.spread else runs


def _reasons(judged: Sequence[Judged]) -> str:
    """Why, for whatever is not as the paper says."""
    lines = [
        f"- **{each.claim.claim}** ({each.claim.section}; {each.verdict}). {each.claim.why}"
        for each in judged
        if each.verdict in {SMALLER, FAILS}
    ]
    return "## Why not more\n\n" + "\n".join(lines) + "\n" if lines else ""


def _figures(folder: Path, paper: Paper, claims: Claims, outcomes: Mapping[Job, JobOutcome]) -> str:
    parts = []
    for plot in claims.plot:
        if plot.paper != paper.id:
            continue
        result = outcomes[plot.job].result
        if result is None:
            parts.append(f"*{plot.title}: not drawn, {outcomes[plot.job].reason}.*\n")
            continue
        below = f"{result['run']}, commit {result['commit'] or 'unknown'}"
        file = draw(plot, result["document"], folder / "plots", below)
        if file is None:
            parts.append(f"*{plot.title}: not drawn, no rows for it or matplotlib is not installed.*\n")
        else:
            parts.append(f"![{plot.title}](plots/{file.name})\n\n*{plot.title}*\n")
    return "## Figures\n\n" + "\n".join(parts) if parts else ""


def _foot(judged: Sequence[Judged], outcomes: Mapping[Job, JobOutcome], *, quick: bool) -> str:
    results: dict[str, Mapping[str, Any]] = {}
    for each in judged:
        result = outcomes[each.claim.job].result
        if result is not None:
            results[each.claim.run] = result
    if not results:
        return ""
    lines = ["## Run on\n"]
    for run, result in results.items():
        box, versions = result["machine"], result["versions"]
        made = ", ".join(f"{name} {version}" for name, version in versions.items())
        lines.append(
            f"- `{run}`: commit {result['commit'] or 'unknown'}, {result['took_s']:.0f} s on {box['cores']} cores "
            f"({box['cpu']}; {box['busy_cores_before']:.2f} cores busy with other work before); {made}"
        )
    if quick:
        lines.append("\nQuick runs: short windows and few repeats, for a look and not for quoting.")
    return "\n".join(lines) + "\nThe raw figures are under [raw](raw).\n"


def _summary(claims: Claims, judged: Sequence[Judged], *, quick: bool) -> str:
    lines = [
        "# What the papers claim, and what holds here\n",
        f"{_command(quick=quick)} runs every claim of [claims.toml](../claims.toml) and writes these. {_READING}\n",
        f"| paper | {' | '.join(VERDICTS)} | its headline here |",
        "|---|" + "---|" * (len(VERDICTS) + 1),
    ]
    for paper in claims.paper:
        own = [each for each in judged if each.claim.paper == paper.id]
        counts = " | ".join(str(sum(each.verdict == verdict for each in own)) for verdict in VERDICTS)
        heads = "; ".join(_headline(each) for each in own if each.claim.headline)
        lines.append(f"| [{paper.title}]({paper.id}.md) | {counts} | {heads} |")
    return "\n".join(lines) + "\n"


def _headline(each: Judged) -> str:
    where = "simulated" if each.claim.job.kind == "simulate" else "runtime"
    ours = "" if each.figure is None else f" ({number(each.figure.ours)} against {number(each.claim.theirs)}, {where})"
    return f"{each.claim.claim}: {each.verdict}{ours}"
