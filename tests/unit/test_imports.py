"""Hold the import rules of pyproject.toml: on this tree, and on small trees that break them one by one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCH = "bench/src/tailrace_bench"
ROOMS = ("topology", "placement", "transport", "program", "worker", "coordinator", "spark", "cli")
LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"


def lint(project: Path) -> subprocess.CompletedProcess[str]:
    sources = [str(project / "src"), str(project / "bench" / "src")]
    path = os.pathsep.join([*sources, os.environ.get("PYTHONPATH", "")])
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
    """Lay out the rules over two packages that so far keep them."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    package = tmp_path / "src" / "tailrace"
    for module in ("", *(f"{room}/" for room in ROOMS)):
        (package / module).mkdir(parents=True, exist_ok=True)
        (package / module / "__init__.py").touch()
    for module in ("errors.py", "version.py"):
        (package / module).touch()
    for module in ("", "peers/", "tails/", "papers/"):
        (tmp_path / BENCH / module).mkdir(parents=True, exist_ok=True)
        (tmp_path / BENCH / module / "__init__.py").touch()
    return tmp_path


def test_the_packages_keep_the_rules():
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_small_tree_keeps_the_rules(project):
    (project / "src/tailrace/cli/__init__.py").write_text("import tailrace.spark\n")
    (project / BENCH / "papers/__init__.py").write_text("import tailrace.cli\nimport tailrace_bench.tails\n")
    result = lint(project)
    assert result.returncode == 0, result.stdout + result.stderr


FORBIDDEN = {
    "placement/__init__.py": "transport",
    "topology/__init__.py": "placement",
    "transport/__init__.py": "topology",
    "program/__init__.py": "worker",
    "worker/__init__.py": "coordinator",
    "coordinator/__init__.py": "worker",
    "spark/__init__.py": "cli",
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


def test_the_runtime_may_not_import_a_bench_nor_a_peer_the_runtime(project):
    (project / "src/tailrace/cli/__init__.py").write_text("import tailrace_bench\n")
    (project / BENCH / "peers/__init__.py").write_text("import tailrace.topology\n")
    (project / BENCH / "tails/__init__.py").write_text("import tailrace_bench.papers\n")
    (project / BENCH / "attic.py").touch()
    result = lint(project)
    assert result.returncode != 0
    found = " ".join(result.stdout.split())
    assert "tailrace is not allowed to import tailrace_bench" in found
    assert "tailrace_bench.peers is not allowed to import tailrace" in found
    assert "tailrace_bench.tails is not allowed to import tailrace_bench.papers" in found
    assert "not listed as layers: - tailrace_bench.attic" in found
