"""What tests of running queries share: a word count, waiting for an outcome, and a look at processes through /proc."""

from __future__ import annotations

import collections
import contextlib
import os
import time
from pathlib import Path

import pytest

import tailrace as tr
from tailrace.data import wiki_path

#: Far longer than anything takes on a quiet machine: a limit for what never happens.
WAIT_S = 150
SENTENCES = Path(__file__).parents[2] / "shared" / "data" / "text" / "enwiki_sentences.txt"
#: A loaded machine may take its time to bring workers up.
PATIENT = {"register_timeout_s": 200.0}


def text_path(*, whole=False):
    """The large text where it lies beside the project, else (and unless asked for) the excerpt of the package."""
    return SENTENCES if whole and SENTENCES.is_file() else wiki_path()


def word_count(path, *, splitters=2, counters=2):
    """The word count over a file's lines, and the sink that its counts arrive at."""
    flow, out = tr.Topology("wordcount"), tr.sinks.collect()
    words = flow.source(tr.sources.lines(path)).flat_map(str.split, tasks=splitters)
    words.key_by(lambda word: word).count(tasks=counters).sink(out)
    return flow, out


def plain_count(path):
    """What a loop over the file counts."""
    with path.open(encoding="utf-8") as lines:
        return collections.Counter(word for line in lines for word in line.split())


def assert_exact(pairs, wanted):
    """Every count of every word was given once: none lost, none doubled."""
    assert len(pairs) == wanted.total()
    highest = {}
    for word, count in pairs:
        highest[word] = max(count, highest.get(word, 0))
    assert highest == wanted
    assert len(set(pairs)) == len(pairs)


def until(condition, what, query=None):
    """Wait for an outcome; a query that fails meanwhile fails the test with its own error."""
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        if query is not None and query.exception() is not None:
            raise query.exception()
        if time.monotonic() > deadline_s:
            told = query.explain(text=True) if query is not None else ""
            pytest.fail(f"did not happen within {WAIT_S} s: {what}\n{told}")
        time.sleep(0.02)


def ended(query):
    """Wait for a query's end; raises what it failed with."""
    if not query.awaitTermination(WAIT_S):
        pytest.fail(f"the query did not end:\n{query.explain(text=True)}")


def completed(query):
    """How many roots are complete by the newest report."""
    return (query.lastProgress or {}).get("completed", 0)


def sequence(query):
    """The number of the newest report."""
    return (query.lastProgress or {}).get("sequence", 0)


def reports_later(query, count):
    """Let a query run on for so many reports."""
    first = sequence(query)
    until(lambda: sequence(query) >= first + count, f"{count} reports", query)


@contextlib.contextmanager
def ending(query):
    """Let no query live longer than its test."""
    try:
        yield query
    finally:
        query.stop(now=True)


def pids(query):
    """The process of each slot's worker."""
    return {slot: member.register.pid for slot, member in sorted(query._brain.members.items())}


def all_open(query):
    """Whether every slot has a living worker with open tasks."""
    return all(member.alive and member.open for member in query._brain.members.values())


def alive(pid):
    """Whether a process is there and no mere zombie of the system."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def executor_of(pid):
    """The executor's JVM above a Python worker."""
    while b"--executor-id" not in Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = parent(pid)
        assert pid > 1
    assert pid != os.getpid()
    return pid


def resident_bytes(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def two_keys(value):
    """Two keys for a number, so that counts of keys can be told from the numbers alone."""
    return [value % 97, value % 89]


def running_counts(numbers):
    """What a keyed count of ``two_keys`` gives for so many numbers, sorted: each key with 1, 2, ... up to its total."""
    totals = collections.Counter(key for value in range(numbers) for key in two_keys(value))
    return sorted((key, number + 1) for key, total in totals.items() for number in range(total))
