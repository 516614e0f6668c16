"""Hold the import rules of pyproject.toml: on this tree, and on small trees that break them one by one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"


def lint(project: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(project / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", LINT],
        cwd=project,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def project(tmp_path):
    """Lay out the rules over a package that so far keeps them."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    package = tmp_path / "src" / "tailrace"
    for module in ("", "topology/", "placement/", "transport/", "worker/", "spark/", "cli/"):
        (package / module).mkdir(parents=True, exist_ok=True)
        (package / module / "__init__.py").touch()
    for module in ("errors.py", "version.py"):
        (package / module).touch()
    return tmp_path


def test_the_package_keeps_the_rules():
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_small_tree_keeps_the_rules(project):
    (project / "src/tailrace/cli/__init__.py").write_text("import tailrace.spark\n")
    result = lint(project)
    assert result.returncode == 0, result.stdout + result.stderr


FORBIDDEN = {
    "placement/__init__.py": "transport",
    "topology/__init__.py": "placement",
    "transport/__init__.py": "topology",
    "worker/__init__.py": "spark",
    "errors.py": "topology",
}


def test_every_forbidden_import_and_every_unlisted_room_is_found(project):
    package = project / "src/tailrace"
    for module, forbidden in FORBIDDEN.items():
        (package / module).write_text(f"import tailrace.{forbidden}\n")
    (package / "attic").mkdir()
    (package / "attic/__init__.py").touch()
    result = lint(project)
    assert result.returncode != 0
    found = " ".join(result.stdout.split())
    for module, forbidden in FORBIDDEN.items():
        room = module.removesuffix("/__init__.py").removesuffix(".py")
        assert f"tailrace.{room} is not allowed to import tailrace.{forbidden}" in found
    assert "not listed as layers: - tailrace.attic" in found
