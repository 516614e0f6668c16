"""The user's functions of the benches, the same objects in every arm, and the values that run through them."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

WORDS_PER_SENTENCE = 10
EXCLAIM_STEPS = 4

split = str.split


def exclaim(text: str) -> str:
    """Append one mark."""
    return text + "!"


def split_timed(pair: tuple[str, int]) -> list[tuple[str, int]]:
    """Split, each word with its sentence's due time."""
    return [(word, pair[1]) for word in split(pair[0])]


def exclaim_timed(pair: tuple[str, int]) -> tuple[str, int]:
    """One step on the value, past its due time."""
    return exclaim(pair[0]), pair[1]


def keeper(kind: str) -> tuple[Callable[[Any], None], dict[str, int]]:
    """The sink function of a bench and what it fills: newest count of each word, or how often each string came."""
    counts: dict[str, int] = {}

    def keep_count(pair: tuple[str, int]) -> None:
        counts[pair[0]] = pair[1]

    def keep_string(text: str) -> None:
        counts[text] = counts.get(text, 0) + 1

    return (keep_count if kind == "wordcount" else keep_string), counts


class Values:
    """Values by number, over and over."""

    def __init__(self, values: list[str]) -> None:
        self.values = values

    def take(self, numbers: range) -> list[str]:
        """The values of these numbers; in slices where they follow one another."""
        values, size = self.values, len(self.values)
        if numbers.step > 1:
            return [values[number % size] for number in numbers]
        start = numbers.start % size
        made = values[start : start + len(numbers)]
        while len(made) < len(numbers):
            made += values[: len(numbers) - len(made)]
        return made


def expected(kind: str, values: list[str], made: list[int]) -> Counter[str]:
    """What the sinks must hold when partition p of ``len(made)`` has made ``made[p]`` records."""
    size, partitions = len(values), len(made)
    times: Counter[int] = Counter()
    for partition, count in enumerate(made):
        rounds, rest = divmod(count, size)
        for turn in range(size):
            times[(partition + turn * partitions) % size] += rounds + (turn < rest)
    found: Counter[str] = Counter()
    for index, often in times.items():
        if often and kind == "wordcount":
            for word in split(values[index]):
                found[word] += often
        elif often:
            found[values[index] + "!" * EXCLAIM_STEPS] += often
    return found


def together(kind: str, parts: Iterable[dict[str, int]]) -> Counter[str]:
    """Put the sinks' counts together: a word lives in one sink, a string may have come to all."""
    found: Counter[str] = Counter()
    for part in parts:
        if kind == "wordcount":
            found |= Counter(part)
        else:
            found.update(part)
    return found


def write_values(path: Path, values: list[str]) -> None:
    """Put values where a peer's process reads them."""
    path.write_text(json.dumps(values), encoding="utf-8")


def read_values(path: Path) -> list[str]:
    """Read what ``write_values`` wrote."""
    found: list[str] = json.loads(path.read_text(encoding="utf-8"))
    return found
