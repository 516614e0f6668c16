"""Names: what gave way to the field's words stays gone, a class name has one meaning, and folders can be surveyed."""

from __future__ import annotations

import ast
import re
import tokenize
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [ROOT / "src" / "tailrace", ROOT / "bench" / "src" / "tailrace_bench"]
#: docs/glossary.md has the words in their place.
GONE = {
    "arriving", "desk", "floor", "handover", "homes", "joining", "key_handover", "key_parcel", "late", "mail",
    "measured", "neighbours", "nook", "parcels", "parties", "placing", "post", "push", "relocating", "settling",
    "still_open", "switchboard", "telling", "ways", "whereabouts", "worth",
}  # fmt: skip
#: Pairs that still share a name: two identities.
SHARED = {"Identity"}
MODULES_MAX = 25

#: Parts of names, and the rooms in which they mean something else: a progress board, the home of an installation, and
#: where Spark keeps a partition of state.
GONE_PARTS = {
    "bell": set(), "bells": set(), "board": {"cli"}, "boards": set(), "homes": {"lever"}, "switchboard": set(),
    "home": {"arms", "cli", "lever", "ring", "spark"},
}  # fmt: skip
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def names(path):
    with path.open("rb") as file:
        return {token.string for token in tokenize.tokenize(file.readline) if token.type == tokenize.NAME}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_no_module_has_a_name_that_gave_way(package):
    modules = [path for path in package.rglob("*.py") if path.stem in GONE]
    assert not modules


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_no_name_has_a_part_that_gave_way(package):
    found = {
        (str(path.relative_to(package)), name)
        for path in package.rglob("*.py")
        for name in names(path)
        for part in _PART.findall(name)
        if part.lower() in GONE_PARTS and path.relative_to(package).parts[0] not in GONE_PARTS[part.lower()]
    }
    assert not found


@pytest.mark.parametrize("name", ["worker", "transport", "coordinator", "spark", "topology", "acking"])
def test_the_rooms_of_the_runtime_are_small_enough_to_survey(name):
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in (PACKAGES[0] / name).rglob("*.py")}
    assert lines
    assert max(lines.values()) <= 400


def test_a_class_name_has_one_meaning():
    found = defaultdict(set)
    for path in (each for package in PACKAGES for each in package.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(path.relative_to(ROOT).as_posix())
    assert len(found) > 500
    assert {name: sorted(paths) for name, paths in found.items() if len(paths) > 1 and name not in SHARED} == {}


def test_what_may_share_a_name_does():
    """Who gives one of them a name of its own takes it off the list."""
    classes = [
        node.name
        for package in PACKAGES
        for path in package.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    ]
    assert {name for name in SHARED if classes.count(name) > 1} == SHARED


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_no_folder_is_too_full_to_survey(package):
    counts = {folder: len(list(folder.glob("*.py"))) for folder in (package, *package.rglob("*/")) if folder.is_dir()}
    assert len(counts) > 10
    full = {folder.name: count for folder, count in counts.items() if count - 1 > MODULES_MAX}  # __init__ is no module
    assert full == {}
