"""Declared states as they are shown from outside, by who has the declarations and by who has only the entries."""

from __future__ import annotations

import dataclasses

import pytest

import tailrace as tr
from tailrace.state.gathered import gathered
from tailrace.state.memory import MemoryBackend
from tailrace.state.named import NamedStates
from tailrace.transport import codec
from tailrace.worker.execution.backends import CODEC


@dataclasses.dataclass
class Visit:
    page: str
    seconds: int


class Visits(tr.States):
    count = tr.ValueState(int)
    brief = tr.ValueState(str, ttl="1 hour")
    anything = tr.ValueState()
    pages = tr.ListState(str)
    per_page = tr.MapState(str, int)
    typed = tr.ListState(list[int])


@pytest.fixture
def states():
    given = Visits()
    named = NamedStates(given, "visits", CODEC, lambda: 1000)
    backend = MemoryBackend(CODEC, lambda _: 0)
    named.begin(backend)
    for key, pages in (("ada", ["/", "/a", "/"]), ("bob", ["/b"])):
        named.key = key
        for number, page in enumerate(pages):
            given.count.update(number + 1)
            given.brief.update(page)
            given.pages.append(page)
            given.per_page.update(page, (given.per_page.get(page) or 0) + 1)
            given.typed.append([number, number])
    given.anything.update({"at": Visit("/b", 3)})
    backend.put("plain", 7)
    return named, backend


def test_who_has_the_declarations_shows_each_by_its_name(states):
    named, _ = states
    named.key = "ada"
    assert named.shown() == {
        "count": 3, "brief": "/", "pages": ["/", "/a", "/"], "per_page": {"/": 2, "/a": 1},
        "typed": [[0, 0], [1, 1], [2, 2]],
    }  # fmt: skip
    named.key = "nobody"
    assert named.shown() == {}


def test_entries_alone_tell_the_same(states):
    named, backend = states
    found = dict(gathered(codec.loads(codec.dumps(list(backend.items()))), codec.loads))
    assert found.pop("plain") == 7
    assert found.keys() == {"ada", "bob"}
    for key, shown in found.items():
        named.key = key
        assert shown == named.shown()
