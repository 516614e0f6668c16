"""What is killed: a word count, histories and two levels of keys; all publish JSON lines with the epoch."""

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


# -- where the order of what comes, and of what comes of it, shows -------------------------------------------------

KEYS = 199


class History(tr.KeyedOperator):
    """The last value of a key with the list of all its predecessors."""

    def process(self, key, value, state):
        held = state.get()
        if held is None:
            state.set([value])
            return [(key, [value])]
        held.append(value)
        return [(key, list(held))]


def levels(folder, per_s, count):
    """Histories by key, and behind another shuffle how many of each length there were."""
    flow = tr.Topology("levels")
    numbers = flow.source(tr.sources.rate(per_s, count=count, partitions=2), tasks=2)
    histories = numbers.shuffle().map(_itself, tasks=2).key_by(_key).process(History(), tasks=2, name="histories")
    histories.sink(tr.sinks.json_lines(folder / "histories"), tasks=1)
    histories.key_by(_length).count(tasks=2, name="lengths").sink(tr.sinks.json_lines(folder / "lengths"), tasks=1)
    return flow


def level_faults(folder, count):
    """The result is that of some order of the input, never a mixture."""
    longest = {}
    histories = [(key, tuple(held)) for key, held in published(folder / "histories")]
    for key, held in histories:
        longest[key] = max(held, longest.get(key, ()), key=len)
    for key, held in longest.items():
        if sorted(held) != list(range(key, count, KEYS)):
            return f"key {key} ends with {held}"
    wanted = {(key, held[: at + 1]) for key, held in longest.items() for at in range(len(held))}
    if len(longest) != KEYS or sorted(histories) != sorted(wanted):
        return f"{len(histories)} histories, {len(wanted)} wanted; strange: {list(set(histories) - wanted)[:3]}"
    lengths = Counter(len(held) for _, held in histories)
    updates = sorted((length, number + 1) for length, total in lengths.items() for number in range(total))
    found = sorted(published(folder / "lengths"))
    return "" if found == updates else f"{len(found)} updates of lengths, {len(updates)} wanted"


def _key(number):
    return number % KEYS


def _length(history):
    return len(history[1])
