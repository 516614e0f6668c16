import json
import xml.etree.ElementTree as ET

import pytest
import typer
from typer.testing import CliRunner

from tailrace.errors import ConfigError
from tailrace.placement.command.cli import parse_options, place
from tailrace.placement.command.drawing import ranges
from tailrace.placement.errors import BalanceError, UnknownPolicyError

APP = typer.Typer()
APP.command()(place)

TOPOLOGY = {
    "name": "wordcount",
    "input_rate_tps": 100,
    "operators": [{"id": "lines", "parallelism": 2}, {"id": "words", "parallelism": 4}],
    "edges": [{"src": "lines", "dst": "words", "grouping": "shuffle"}],
}


def run(tmp_path, *arguments):
    file = tmp_path / "t.json"
    file.write_text(json.dumps(TOPOLOGY))
    return CliRunner().invoke(APP, [str(file), *arguments], env={"COLUMNS": "160"})


def test_place_prints_writes_and_draws(tmp_path):
    out, picture = tmp_path / "out.json", tmp_path / "out.svg"
    done = run(
        tmp_path,
        "--nodes",
        "2x2",
        "--policy",
        "turbostream",
        "-o",
        "seed=1",
        "--json",
        str(out),
        "--draw",
        str(picture),
    )
    assert done.exit_code == 0, done.output
    assert "words[" in done.output
    assert "5,000 bytes/s between nodes (50 tuples/s)" in done.output
    assert "balance        1.0000 over nodes" in done.output
    found = json.loads(out.read_text())
    assert set(found["assignment"]) == {"lines[0]", "lines[1]", *(f"words[{i}]" for i in range(4))}
    assert found["cut_bytes_per_s"] == 5000.0
    assert found["streams"][0]["inter_node_tuples_per_s"] == 50.0
    drawn = ET.parse(picture).getroot()
    dots = [c for c in drawn.iter("{http://www.w3.org/2000/svg}circle") if len(c)]
    assert sorted(c[0].text for c in dots) == sorted(found["assignment"])


def test_node_local_shuffle_is_told(tmp_path):
    done = run(tmp_path, "--nodes", "2x1", "--policy", "round_robin", "--shuffle", "node")
    assert "0 bytes/s between nodes" in done.output


def test_many_nodes_are_cut_short_in_the_terminal(tmp_path):
    done = run(tmp_path, "--nodes", "20x1", "--policy", "round_robin")
    assert "and 4 more nodes" in done.output
    assert "Traffic between nodes" not in done.output


def test_mistakes_come_out_as_named_errors(tmp_path):
    assert isinstance(run(tmp_path, "--policy", "turbostrem").exception, UnknownPolicyError)
    assert isinstance(run(tmp_path, "--policy", "auto", "-o", "seed").exception, UnknownPolicyError)
    assert isinstance(run(tmp_path, "--draw", str(tmp_path / "x.png")).exception, ConfigError)


def test_options_and_ranges_are_read_and_written():
    assert parse_options(["a=1", "b=0.5", "c=True", "d=none", "e=cpu"]) == {
        "a": 1,
        "b": 0.5,
        "c": True,
        "d": None,
        "e": "cpu",
    }
    with pytest.raises(UnknownPolicyError, match="KEY=VALUE"):
        parse_options(["seed"])
    assert ranges([5, 0, 1, 2]) == "0-2,5"


def test_a_balance_bound_that_is_kept_is_said_to_be(tmp_path):
    done = run(tmp_path, "--nodes", "2x1", "--policy", "turbostream", "--json", str(tmp_path / "out.json"))
    assert done.exit_code == 0
    assert "bound          1.0500 over nodes: kept" in done.output
    assert json.loads((tmp_path / "out.json").read_text())["imbalance_kept"] is True
    unbound = run(tmp_path, "--nodes", "4x1", "--policy", "round_robin")
    assert unbound.exit_code == 0
    assert "bound  " not in unbound.output


@pytest.mark.parametrize("policy", ["turbostream", "auto", "stromax"])
def test_a_balance_bound_that_is_missed_is_an_error_with_everything_written(tmp_path, policy):
    # Tasks of load 50, 50 and four times 25 on five nodes: a share is 40.
    done = run(tmp_path, "--nodes", "5x1", "--policy", policy, "--json", str(tmp_path / "out.json"))
    assert isinstance(done.exception, BalanceError)
    assert done.exception.exit_code == 9
    assert "over nodes: missed" in done.output
    assert "No placement keeps that on 5 nodes" in done.exception.hint
    assert "at best the fullest carries 1.2500" in done.exception.hint
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["imbalance_kept"] is False
    assert found["imbalance"] > found["imbalance_bound"]


def test_a_bound_that_this_policy_alone_missed_has_a_way_out(tmp_path):
    done = run(tmp_path, "--nodes", "4x1", "--policy", "stromax")
    assert isinstance(done.exception, BalanceError)
    assert "Try --policy auto" in done.exception.hint
    assert run(tmp_path, "--nodes", "4x1", "--policy", "auto").exit_code == 0
