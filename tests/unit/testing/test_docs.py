"""The Python blocks of docs/testing.md run, and print what the text blocks behind them say."""

from __future__ import annotations

import re
from pathlib import Path

DOCUMENT = Path(__file__).parents[3] / "docs" / "testing.md"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_document_says_what_happens(capsys):
    names = {"__name__": "documented"}
    blocks = BLOCK.findall(DOCUMENT.read_text(encoding="utf-8"))
    assert len(blocks) >= 8
    for language, text in blocks:
        if language == "python":
            capsys.readouterr()
            exec(compile(text, DOCUMENT.name, "exec"), names)
        else:
            assert capsys.readouterr().out == text
