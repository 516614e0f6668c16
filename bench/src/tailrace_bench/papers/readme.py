"""Keeps the papers' verdicts in the project's own README: a table and two plots between two marks, never by hand.

``cli`` calls it after a run of all papers. A README without the marks is left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .pages import number
from .verdict import NOT_RUN, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .claims import Claims, Paper
    from .verdict import Judged

BEGIN, END = "<!-- verdicts: written by tailrace papers -->", "<!-- end of verdicts -->"
#: The two that tell the story: what the ring saves, and what balancing does to a tail.
PLOTS = ("turbostream-size", "du-gupta-balance")


def write_verdicts(readme: Path, results: Path, claims: Claims, judged: Sequence[Judged]) -> bool:
    """Put the table where the marks are; whether there were any."""
    try:
        text = readme.read_text(encoding="utf-8")
    except OSError:
        return False
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        return False
    readme.write_text(f"{before}{BEGIN}\n{_verdicts(results, claims, judged)}{END}{after}", encoding="utf-8")
    return True


def _verdicts(results: Path, claims: Claims, judged: Sequence[Judged]) -> str:
    shown = [verdict for verdict in VERDICTS if verdict != NOT_RUN or any(each.verdict == verdict for each in judged)]
    heading = f"| paper | {' | '.join(shown)} | its headlines, run on the engine here |"
    lines = [heading, "|---" * (len(shown) + 2) + "|"]
    for paper in claims.paper:
        own = [each for each in judged if each.claim.paper == paper.id]
        counts = " | ".join(str(sum(each.verdict == verdict for each in own)) for verdict in shown)
        lines.append(f"| [{_short(paper)}]({results.as_posix()}/{paper.id}.md) | {counts} | {_headlines(own)} |")
    titles = {plot.id: plot.title for plot in claims.plot}
    drawn = [name for name in PLOTS if (results / "plots" / f"{name}.svg").exists() and name in titles]
    figures = [f"![{titles[name]}]({results.as_posix()}/plots/{name}.svg)" for name in drawn]
    return "\n".join([*lines, *(f"\n{figure}" for figure in figures)]) + "\n"


def _short(paper: Paper) -> str:
    """The name before the colon."""
    return paper.title.partition(":")[0]


def _headlines(own: Sequence[Judged]) -> str:
    """What each headline on the runtime came to; where there is none, those of the simulator."""
    heads = [each for each in own if each.claim.headline]
    run = [each for each in heads if each.claim.job.kind == "bench"] or heads
    return "; ".join(_headline(each) for each in run)


def _headline(each: Judged) -> str:
    if each.figure is None or each.verdict == NOT_RUN:
        return f"{each.claim.claim}: {NOT_RUN}"
    return f"{each.claim.claim}: **{each.verdict}** ({number(each.figure.ours)}, the paper {number(each.claim.theirs)})"
