"""The Python blocks of the documents run, and print what the text blocks behind them say.

Starting a query is replaced by validating its topology: these tests are about drawing, and need no Spark.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import tailrace as tr

DOCS = Path(__file__).parents[3] / "docs"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def start(flow):
    flow.validate()
    return SimpleNamespace(awaitTermination=lambda: None)


@pytest.fixture
def names(monkeypatch):
    monkeypatch.setattr(tr, "start", start)
    return {"__name__": "__main__", "tr": tr}


@pytest.mark.parametrize("document", ["topologies.md", "connectors.md", "state.md"])
def test_a_document_says_what_happens(document, names, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((DOCS / document).read_text(encoding="utf-8"))
    assert len(blocks) >= 3
    for language, text in blocks:
        if language == "python":
            capsys.readouterr()
            exec(compile(text.replace("import tailrace as tr\n", ""), document, "exec"), names)
        else:
            assert capsys.readouterr().out == text
