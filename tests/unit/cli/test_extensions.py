"""The commands of the second distribution: there when it is installed, named with the way to it when it is not."""

from __future__ import annotations

from importlib import metadata

import pytest
import typer

from tailrace.cli import extensions
from tailrace.cli.errors import CommandMissingError
from tailrace.cli.main import app, main


@pytest.fixture
def runtime_alone(monkeypatch):
    """An environment without tailrace-bench: its entry points are all that the command line knows of it."""
    known = metadata.entry_points
    monkeypatch.setattr(
        extensions.metadata, "entry_points",
        lambda *, group: () if group == extensions.GROUP else known(group=group),
    )  # fmt: skip


def test_the_second_distribution_brings_these_commands_and_no_other():
    found = {point.name: point.dist.name for point in metadata.entry_points(group=extensions.GROUP)}
    assert found == dict.fromkeys(extensions.COMMANDS, extensions.BENCH)


@pytest.mark.parametrize("name", extensions.COMMANDS)
def test_it_is_a_command_whose_help_is_its_own(name, capsys):
    assert name in typer.main.get_command(app).commands
    with pytest.raises(SystemExit) as left:
        main([name, "--help"])
    assert left.value.code == 0
    assert f"Usage: tailrace {name} [OPTIONS]" in capsys.readouterr().out


@pytest.mark.parametrize("name", extensions.COMMANDS)
@pytest.mark.parametrize("arguments", [(), ("--help",), ("wordcount", "--quick")])
@pytest.mark.usefixtures("runtime_alone")
def test_without_it_the_error_says_what_to_install(name, arguments, capsys):
    with pytest.raises(SystemExit) as left:
        main([name, *arguments])
    told = capsys.readouterr()
    assert (left.value.code, told.out) == (CommandMissingError.exit_code, "")
    assert told.err.startswith(f"CommandMissingError: tailrace {name} is in the distribution tailrace-bench")
    assert "pip install tailrace-bench" in told.err


def test_the_help_says_what_to_install(runtime_alone):
    assert set(extensions.summaries().values()) == {"Needs: pip install tailrace-bench."}


def test_the_help_says_what_an_installed_command_does():
    assert extensions.summaries() == extensions.COMMANDS
