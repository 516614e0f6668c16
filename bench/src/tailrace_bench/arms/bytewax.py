"""Bytewax as an arm, in an environment of its own that is built once and kept in the user's cache folder."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace_bench.errors import ArmError, PeerMissingError

from .base import last_came
from .child import ChildArm

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.metrics.histogram import Histogram

REQUIREMENT = "bytewax==0.21.*"
BATCHES = (1, 10, 100)
_BUILD_S_MAX = 600
_ANSWER_S_MAX = 30.0


@dataclass(frozen=True)
class BytewaxShape:
    """How many processes, and workers (threads) in each."""

    name: str
    processes: int
    threads: int


SHAPES = (BytewaxShape("2 processes", 2, 1), BytewaxShape("2 threads", 1, 2), BytewaxShape("1 process", 1, 1))


def environment(say: Callable[[str], None]) -> Path:
    """The Python of an environment with Bytewax in it; built if it is not there yet."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "tailrace" / f"bytewax-0.21-py{sys.version_info[0]}.{sys.version_info[1]}"
    python, ready = folder / "bin" / "python", folder / "ready"
    if ready.exists():
        return python
    say(f"Building an environment for {REQUIREMENT}, once")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        _run([sys.executable, "-m", "venv", str(folder)])
        _run(
            [
                str(python),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--retries",
                "1",
                "--disable-pip-version-check",
                REQUIREMENT,
            ]
        )
    except (OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        said = getattr(error, "stderr", None) or str(error)
        raise PeerMissingError(
            f"{REQUIREMENT} could not be installed: {said.strip().splitlines()[-1][:200]}.",
            "Make a package index reachable for pip; the other arms are measured without it.",
        ) from error
    ready.touch()
    return python


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=_BUILD_S_MAX)  # noqa: S603 - our own


def version(python: Path) -> str:
    """Which Bytewax it is."""
    code = "from importlib.metadata import version; print(version('bytewax'))"
    done = subprocess.run(  # noqa: S603 - our own
        [str(python), "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


class BytewaxArm(ChildArm):
    """One way to run the bench on Bytewax.

    ``timed`` ones carry due times through the flow, for latencies; ``tuned`` ones are written by hand for it.
    """

    def __init__(
        self,
        kind: str,
        folder: Path,
        python: Path,
        shape: BytewaxShape,
        batch: int,
        *,
        timed: bool = False,
        tuned: bool = False,
    ) -> None:
        setup = f"{shape.name}, batch {batch}{', tuned' * tuned}"
        name = f"bytewax ({setup}{', timed' * timed})"
        super().__init__(name, kind, folder, shape.processes * shape.threads)
        self.setup = setup
        self._python = python
        self._shape = shape
        self._batch = batch
        self._timed = timed
        self._tuned = tuned

    def open(self) -> None:
        """Start its processes."""
        several = self._shape.processes > 1
        addresses = [f"127.0.0.1:{port}" for port in _free_ports(self._shape.processes)] if several else []
        asked = {
            "kind": self.kind,
            "panel": self.panel.path,
            "values": str(self.values_path),
            "out": str(self.path),
            "batch": self._batch,
            "timed": self._timed,
            "tuned": self._tuned,
            "workers": self._shape.threads,
            "addresses": addresses,
        }
        self.run(
            [
                [str(self._python), "-m", "peers.bytewax_flow", json.dumps(asked | {"process": process})]
                for process in range(self._shape.processes)
            ]
        )

    def latencies(self, records: int) -> Histogram:
        """Of each record the time from when it was due until the last of its items came to a sink."""
        self.panel.ask()
        if not self.answers(_ANSWER_S_MAX):
            raise ArmError(f"{self.name} did not tell its latencies.", self.last_words())
        pairs = array("q")
        for at in range(self.partitions):
            pairs.frombytes(Path(f"{self.path}.{at}.times").read_bytes())
        return last_came(self.name, pairs, records)


def _free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    try:
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()
