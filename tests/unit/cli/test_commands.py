"""Every ``tailrace`` command in README and docs can be typed as it is written: commands, names and options exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from tailrace.cli.main import app
from tailrace.lever.cli import app as lever_app
from tailrace.placement.command.cli import place
from tailrace.simulate.cli import simulate
from tailrace.simulate.scenarios.catalogue import SCENARIOS
from tailrace_bench.cli import bench
from tailrace_bench.papers.cli import papers
from tailrace_bench.papers.watch import bench_check
from tailrace_bench.registry import NAMES

ROOT = Path(__file__).parents[3]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: In a block to the end of the line, a comment or a redirection; in a sentence between backticks.
TYPED = re.compile(r"^ *(tailrace [a-z].*?)(?: +[#>].*)?$", re.MULTILINE)
QUOTED = re.compile(r"`(tailrace [a-z][^`]*)`")
#: What stands for something of the reader's own.
STANDS_FOR = {"SCENARIO": "slots", "NAME": "ring"}
#: Commands that other rooms parse.
MOUNTED = {"bench": bench, "simulate": simulate, "papers": papers, "bench-check": bench_check, "place": place}


def commands():
    found = []
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        found += QUOTED.findall(text)
        for block in BLOCK.findall(text):
            found += TYPED.findall(block)
    return sorted(set(found))


COMMANDS = commands()


def parser_of(name):
    if name in MOUNTED:
        mounted = typer.Typer()
        mounted.command()(MOUNTED[name])
        return typer.main.get_command(mounted)
    return typer.main.get_command(lever_app if name == "lever" else app)


def test_there_are_commands_of_all_kinds():
    assert {line.split()[1] for line in COMMANDS} >= {"demo", "run", "bench", "simulate", "papers", "place", "doctor"}


@pytest.mark.parametrize("line", COMMANDS)
def test_it_can_be_typed(line):
    name, *arguments = [STANDS_FOR.get(word, word) for word in shlex.split(re.sub(r"[\[\]]", "", line))[1:]]
    assert name in typer.main.get_command(app).commands
    if not arguments:
        return  # a sentence speaks of the command as such
    parser = parser_of(name)
    if name == "lever":
        name, *arguments = arguments
    command = parser.commands[name] if hasattr(parser, "commands") else parser
    context = command.make_context(name, arguments)
    if "name" in context.params:
        assert context.params["name"] in NAMES
    if "scenario" in context.params:
        assert context.params["scenario"] in SCENARIOS
