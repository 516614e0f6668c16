"""Names that gave way to the field's: none of them comes back as a module."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [ROOT / "src" / "tailrace", ROOT / "bench" / "src" / "tailrace_bench"]
#: docs/glossary.md has the words in their place.
GONE = {
    "arriving", "desk", "floor", "handover", "joining", "key_handover", "key_parcel", "late", "mail",
    "neighbours", "nook", "parcels", "parties", "post", "push", "relocating", "settling", "switchboard", "telling",
    "ways", "whereabouts", "worth",
}  # fmt: skip


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_no_module_has_a_name_that_gave_way(package):
    modules = [path for path in package.rglob("*.py") if path.stem in GONE]
    assert not modules


@pytest.mark.parametrize("name", ["worker", "transport", "coordinator", "spark", "topology", "acking"])
def test_the_rooms_of_the_runtime_are_small_enough_to_survey(name):
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in (PACKAGES[0] / name).rglob("*.py")}
    assert lines
    assert max(lines.values()) <= 400
