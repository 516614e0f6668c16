"""README and the first steps run as they are written, on worker processes instead of Spark, and their links lead on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tailrace as tr
from tailrace.config import Policy, Settings
from tailrace.coordinator.query import Query
from tailrace.testing import ProcessHost

ROOT = Path(__file__).parents[3]
DOCUMENTS = ["README.md", "docs/getting-started.md"]
LINKED = [*DOCUMENTS, "docs/settings.md", "docs/monitoring.md", "docs/exit-codes.md", "docs/guarantees.md"]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#]+)\)")


def start(flow, *, workers=2):
    return Query(flow, ProcessHost(workers), Policy(), Settings()).start()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_python_blocks_run(document, monkeypatch, capsys):
    monkeypatch.setattr(tr, "start", start)
    names = {"__name__": "__main__"}
    printed = []
    for text in BLOCK.findall((ROOT / document).read_text(encoding="utf-8")):
        exec(compile(text, document, "exec"), names)
        printed.append(capsys.readouterr().out)
    if document == "README.md":
        assert len(printed[0].splitlines()) == 20
    else:
        assert printed[1].endswith("\nFalse None 50\n")


@pytest.mark.parametrize("document", LINKED)
def test_links_lead_somewhere(document):
    path = ROOT / document
    for link in LINK.findall(path.read_text(encoding="utf-8")):
        assert (path.parent / link).exists(), link
