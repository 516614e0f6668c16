"""Word count: the topology that `tailrace run examples/wordcount.py` runs, or `python examples/wordcount.py` itself.

It counts the Wikipedia excerpt that ships with Tailrace, or the file that the variable TEXT names, and writes the
running count of every word it meets.
"""

from __future__ import annotations

import os
import re

import tailrace as tr
from tailrace.data import wiki_path

WORD = re.compile(r"\w+")


def words(sentence: str) -> list[str]:
    return WORD.findall(sentence.lower())


flow = tr.Topology("wordcount")
sentences = flow.source(tr.sources.lines(os.environ.get("TEXT", wiki_path())))
counts = sentences.flat_map(words, tasks=2).key_by(str).count(tasks=2)
counts.sink(tr.sinks.console())


if __name__ == "__main__":
    tr.start(flow).awaitTermination()
