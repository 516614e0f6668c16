"""Simulator, benches and runtime run the same policy classes: none is defined twice, each is imported from its room."""

from __future__ import annotations

import ast
import os
from functools import cache
from pathlib import Path

import pytest

import tailrace
import tailrace_bench

PACKAGE = Path(tailrace.__file__).parent
#: Where policies live. Lever's plans and the choice among techniques decide as well.
POLICIES = ("placement", "routing", "sending", "receiving", "acking", "lever/plans", "coordinator/steering/auto.py")
SIMULATOR = ("simulate",)
BENCHES = (Path(tailrace_bench.__file__).parent,)
RUNTIME = ("worker", "coordinator", "spark", "lever", "testing", "start.py")
#: Policies that the simulator and the runtime are both known to run; one that leaves either of them fails the test.
SHARED = {
    "tailrace.routing.shortest_delay", "tailrace.routing.load_aware", "tailrace.routing.weighted",
    "tailrace.routing.detour", "tailrace.routing.fields", "tailrace.routing.near", "tailrace.routing.latency",
    "tailrace.acking.adaptive_timeout", "tailrace.receiving.inbox", "tailrace.receiving.shared_inbox",
    "tailrace.lever.plans.damped", "tailrace.lever.plans.paper",
}  # fmt: skip


def files(places):
    for place in places:
        found = PACKAGE / place
        yield from [found] if found.is_file() else sorted(found.rglob("*.py"))


@cache
def tree(file):
    return ast.parse(file.read_text(encoding="utf-8"))


def classes(places):
    return {
        (node.name, os.path.relpath(file, PACKAGE))
        for file in files(places)
        for node in ast.walk(tree(file))
        if isinstance(node, ast.ClassDef)
    }


def decides(name, file):
    """Whether a class has a public method of its own and is no mere interface: records may share a name."""
    for node in ast.walk(tree(PACKAGE / file)):
        if isinstance(node, ast.ClassDef) and node.name == name:
            if any("Protocol" in ast.unparse(base) for base in node.bases):
                return False
            return any(isinstance(part, ast.FunctionDef) and not part.name.startswith("_") for part in node.body)
    return False


def imported(places, seen=frozenset()):
    """Modules of the package that these files import, and what those import of the policies' own rooms."""
    found = set()
    for file in files(places):
        package = "tailrace." + ".".join(file.relative_to(PACKAGE).parts[:-1])
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.ImportFrom):
                base = package.rstrip(".").split(".")
                base = ".".join(base[: len(base) - node.level + 1]) if node.level else ""
                module = ".".join(part for part in (base, node.module) if part)
                found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    rooms = tuple(
        place for place in POLICIES if any(name.startswith("tailrace." + place.partition("/")[0]) for name in found)
    )
    return found if rooms == seen else found | imported((*places, *rooms), rooms)


def test_no_policy_class_is_defined_a_second_time():
    own = {(name, file) for name, file in classes(POLICIES) if decides(name, file)}
    by_name = dict(own)
    everywhere = classes((*SIMULATOR, *BENCHES, *RUNTIME))
    copies = {(name, file, by_name[name]) for name, file in everywhere - own if name in by_name and decides(name, file)}
    assert not copies


@pytest.mark.parametrize("places", [SIMULATOR, RUNTIME], ids=["simulator", "runtime"])
def test_both_import_the_policies_from_their_rooms(places):
    assert imported(places) >= SHARED


@pytest.mark.parametrize("room", ["simulate", "bench/src"])
def test_a_copy_would_be_found(monkeypatch, tmp_path, room):
    """The search itself: a tree in which the simulator, or a bench, has its own router."""
    for place in ("src/routing", f"src/{room}" if room == "simulate" else room):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "best.py").write_text("class Best:\n    def choose(self): ...\n")
    monkeypatch.setattr(f"{__name__}.PACKAGE", tmp_path / "src")
    monkeypatch.setattr(f"{__name__}.BENCHES", (tmp_path / "bench/src",))
    with pytest.raises(AssertionError, match="Best"):
        test_no_policy_class_is_defined_a_second_time()
