"""The text that ships: readable, plain, of a useful size, and with its notice."""

from __future__ import annotations

import re

from tailrace.data import wiki_path


def test_the_excerpt_is_plain_sentences():
    lines = wiki_path().read_text(encoding="utf-8").splitlines()
    assert 1_900 <= len(lines) <= 2_100
    assert all(line == line.strip() and 5 <= len(line.split()) <= 40 for line in lines)


def test_the_notice_accounts_for_every_sentence():
    notice = wiki_path().with_name("NOTICE").read_text(encoding="utf-8")
    assert "CC BY-SA 3.0" in notice
    articles = re.findall(r"^ *(\d+) +(\d+)  \S", notice, flags=re.MULTILINE)
    assert sum(int(sentences) for _, sentences in articles) == len(wiki_path().read_bytes().splitlines())
