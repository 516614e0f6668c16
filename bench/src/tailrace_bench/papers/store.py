"""Raw results on disk: one JSON per job, with machine, versions and commit, and what makes it valid for this code.

A result counts for the source it was made with: the key is a digest of both packages without this room, so that a new
sentence in the claims costs no new run, and a changed engine does. ``runner`` reads and writes them.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tailrace
import tailrace_bench
from tailrace.metrics import provenance
from tailrace_bench.measurement import machine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .jobs import Job

_SOURCES = ("*.py", "*.so", "*.scala", "*.jar")
_OWN_ROOM = "papers"


def source_digest(*roots: Path) -> str:
    """Names and contents of all that a result depends on: the runtime and the benches, or what is below ``roots``."""
    found = hashlib.sha256()
    for folder in roots or [Path(package.__path__[0]) for package in (tailrace, tailrace_bench)]:
        for file in sorted(path for pattern in _SOURCES for path in folder.rglob(pattern)):
            relative = file.relative_to(folder)
            if relative.parts[0] != _OWN_ROOM:
                found.update(str(relative).encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:16]


class Store:
    """The folder of raw results of quick or of full runs."""

    def __init__(self, folder: Path, digest: str, *, quick: bool) -> None:
        self.folder = folder / ("quick" if quick else "full")
        self._digest = digest
        self._quick = quick

    def load(self, job: Job, *, any_code: bool = False) -> dict[str, Any] | None:
        """What an earlier run of the same code found, if it did; or of any code."""
        try:
            found: dict[str, Any] = json.loads((self.folder / job.file_name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if any_code or found.get("digest") == self._digest else None

    def save(self, job: Job, document: Mapping[str, Any], took_s: float, load: machine.OtherLoad) -> dict[str, Any]:
        """Keep what a job found; written aside and moved, so that an interruption leaves no half of it."""
        found = {
            "run": job.shown(quick=self._quick),
            "quick": self._quick,
            "digest": self._digest,
            "took_s": round(took_s, 1),
            "commit": provenance.commit(),
            "machine": machine.describe_machine(load),
            "versions": document.get("versions") or provenance.versions(),
            "document": document,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        aside = self.folder / f".{job.file_name}"
        aside.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        aside.replace(self.folder / job.file_name)
        return found
