"""The word count that is killed: every update goes to a folder of JSON lines that publishes with the epoch."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice

from tests.queries import text_path

import tailrace as tr


def sentences(count):
    """The first sentences of the large text where it is there, else of the package's over and over."""
    lines = text_path(whole=True).read_text(encoding="utf-8").splitlines()
    return list(islice(lines * (count // len(lines) + 1), count))


def counted(folder, per_s, count):
    """Draw it: two sources, two splitters, three counters, two sinks."""
    flow = tr.Topology("durable")
    lines = flow.source(tr.sources.rate(per_s, values=sentences(count), count=count, partitions=2), tasks=2)
    words = lines.shuffle().flat_map(str.split, tasks=2, name="split")
    words.key_by(_itself).count(tasks=3, name="counts").sink(tr.sinks.json_lines(folder), tasks=2, name="lines")
    return flow


def _itself(word):
    return word


def published(folder):
    """What readers of the folder see: names that begin with a dot or an underscore are none of their business."""
    found = []
    for path in sorted(folder.iterdir()):
        if not path.name.startswith((".", "_")):
            found += [tuple(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    return found


def faults(folder, count):
    """What is wrong with what was published: every update of every word must be there, once."""
    wanted = Counter(word for line in sentences(count) for word in line.split())
    found = Counter(published(folder))
    lost = sum((word, number + 1) not in found for word, total in wanted.items() for number in range(total))
    doubled = {pair: times for pair, times in found.items() if times > 1}
    strange = [pair for pair in found if not 1 <= pair[1] <= wanted[pair[0]]]
    if lost or doubled or strange:
        return f"{lost} lost, {len(doubled)} doubled ({list(doubled)[:5]}), {len(strange)} strange ({strange[:5]})"
    return ""
