from __future__ import annotations

import json
from collections import Counter

import pytest
from tests.unit.checkpoint.made import WORDS, counted, replace_object

from tailrace.checkpoint.log import manifest_name
from tailrace.checkpoint.reader import CheckpointReader
from tailrace.checkpoint.stores import open_store
from tailrace.cli.main import main


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("checkpoint")
    counted(path)
    return path


@pytest.fixture
def ask(capsys):
    def asked(path, *options, code=0):
        with pytest.raises(SystemExit) as left:
            main(["state", str(path), *options])
        assert left.value.code == code
        return capsys.readouterr()

    return asked


def test_epochs_and_operators_are_listed(written, ask):
    told = ask(written).out
    assert "Checkpoint of words" in told
    assert "whole" in told
    assert "counts" in told
    assert "lengths" in told


def test_keys_and_values_as_json(written, ask):
    told = json.loads(ask(written, "--json", "--operator", "counts", "--limit", "9").out)
    assert {row["key"]: row["value"] for row in told["rows"]} == Counter(WORDS)
    assert [row["operator"] for row in told["operators"]] == ["counts", "counts"]
    assert sum(row["keys"] for row in told["operators"]) == len(set(WORDS))
    assert told["entries"][0]["epoch"] == told["epoch"]


def test_one_key(written, ask):
    assert " 40 " in ask(written, "--operator", "counts", "--key", "to").out
    assert "no key 'too'" in ask(written, "--operator", "counts", "--key", "too", code=2).err
    assert "--operator" in ask(written, "--key", "to", code=2).err


def test_an_earlier_epoch(written, ask):
    epoch = json.loads(ask(written, "--json").out)["entries"][-1]["epoch"]
    assert json.loads(ask(written, "--json", "--epoch", str(epoch)).out)["epoch"] == epoch
    assert "no epoch 999" in ask(written, "--epoch", "999", code=2).err


def test_a_mistyped_operator_and_a_folder_without_a_checkpoint(written, tmp_path, ask):
    assert "Did you mean 'counts'?" in ask(written, "--operator", "count", code=2).err
    assert "no entry" in ask(tmp_path, code=10).err
    assert "to be there" in ask(tmp_path / "none", code=4).err


@pytest.mark.parametrize("harm", ["flipped", "newer", "missing"])
def test_a_broken_object_is_named_and_all_else_is_listed(tmp_path, ask, harm):
    counted(tmp_path)
    store = open_store(tmp_path)
    newest, before = (entry.manifest for entry in CheckpointReader(store).entries()[:2])
    name = max(newest.objects - before.objects)
    replace_object(store, name, harm)
    told = ask(tmp_path, "--json", "--check", code=10)
    assert name in told.err
    found = json.loads(told.out)
    assert [bool(entry["faults"]) for entry in found["entries"][:2]] == [True, False]
    assert found["epoch"] == before.epoch
    assert found["operators"]
    assert name in ask(tmp_path, "--epoch", str(newest.epoch), code=10).err


def test_a_broken_manifest_is_named_and_the_one_before_shown(tmp_path, ask):
    counted(tmp_path)
    store = open_store(tmp_path)
    newest, before = (entry.manifest for entry in CheckpointReader(store).entries()[:2])
    replace_object(store, manifest_name(newest.number), "cut")
    told = ask(tmp_path, "--json", code=10)
    assert manifest_name(newest.number) in told.err
    assert json.loads(told.out)["epoch"] == before.epoch
