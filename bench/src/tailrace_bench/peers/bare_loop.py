"""The same work as one plain loop in one process, with no engine: what Python itself costs.

Run by ``arms.bare`` in a process of its own, with the bench's kind, the panel, the values and a file for the counts.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .child import end_with_parent
from .openloop import OpenLoop
from .panel import Panel
from .work import EXCLAIM_STEPS, Values, exclaim, keeper, read_values, split

if TYPE_CHECKING:
    from collections.abc import Callable

_BATCH = 256


def count_words(sentences: list[str], counts: dict[str, int], keep: Callable[[Any], None]) -> int:
    """Split, count, hand over."""
    items = 0
    for sentence in sentences:
        words = split(sentence)
        for word in words:
            count = counts.get(word, 0) + 1
            counts[word] = count
            keep((word, count))
        items += len(words)
    return items


def exclaim_all(texts: list[str], counts: dict[str, int], keep: Callable[[Any], None]) -> int:
    """Four steps on each string, hand over."""
    del counts
    for text in texts:
        made = text
        for _ in range(EXCLAIM_STEPS):
            made = exclaim(made)
        keep(made)
    return len(texts)


def main(kind: str, panel_path: str, values_path: str, counts_path: str) -> None:
    """Work on what the panel asks for until it says end."""
    end_with_parent()
    panel, values = Panel(panel_path), Values(read_values(Path(values_path)))
    loop = OpenLoop(panel, 0, 1)
    keep, kept = keeper(kind)
    state: dict[str, int] = {}
    work = count_words if kind == "wordcount" else exclaim_all
    while not loop.ended:
        if panel.is_asked(0):
            panel.answer(0)
        numbers, _ = loop.take(_BATCH)
        if numbers:
            panel.count_done(0, work(values.take(numbers), state, keep))
        else:
            time.sleep(loop.wait_ns() / 1e9)
    Path(counts_path).write_text(json.dumps(kept), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
