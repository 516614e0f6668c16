"""Arms that are processes of our own: they can be held still while another arm is measured."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace_bench.errors import ArmError
from tailrace_bench.peers import panel
from tailrace_bench.peers.work import write_values

from .base import Arm, wait_for

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Where ``python -m peers.NAME`` finds them.
_PEERS_PARENT = Path(panel.__file__).parent.parent
_START_S_MAX = 60.0
_END_S_MAX = 20.0


class ChildArm(Arm):
    """Starts commands, waits until they answer, and ends them."""

    def __init__(self, name: str, kind: str, folder: Path, partitions: int) -> None:
        super().__init__(name, kind, folder, partitions)
        self._children: list[subprocess.Popen[bytes]] = []
        self.values_path = folder / "values.json"
        if not self.values_path.exists():
            write_values(self.values_path, self.values)

    def run(self, commands: Sequence[Sequence[str]]) -> None:
        """Start all; what they print goes to a file beside the panel."""
        self.panel.ask()
        surroundings = {**os.environ, "PYTHONPATH": str(_PEERS_PARENT)}
        with Path(f"{self.path}.log").open("ab") as log:
            for command in commands:
                self._children.append(
                    subprocess.Popen(  # noqa: S603 - our own
                        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=surroundings
                    )
                )
        if not self.answers(_START_S_MAX):
            raise ArmError(f"{self.name} did not start within {_START_S_MAX:.0f} s.", self.last_words())
        self.suspend()

    def answers(self, seconds: float) -> bool:
        """Wait for the answers to the last question; tells whether all came."""
        wait_for(lambda: self.panel.answered(self.partitions) or self._died(), seconds)
        return self.panel.answered(self.partitions) and not self._died()

    def _died(self) -> bool:
        return any(child.poll() is not None for child in self._children)

    def last_words(self) -> str:
        """The end of what the children printed."""
        text = Path(f"{self.path}.log").read_text(encoding="utf-8", errors="replace").strip()
        return text.splitlines()[-1] if text else "It printed nothing."

    def pids(self) -> list[int]:
        """The children."""
        return [child.pid for child in self._children]

    def resume(self) -> None:
        """Let the children run, and wait until they do.

        Bytewax reckons its next sleep from the time when its turn began: stopped within a turn, it sleeps as long
        again. The first answer may be of that turn, the second is not.
        """
        self._signal(signal.SIGCONT)
        for _ in range(2):
            self.panel.ask()
            if not self.answers(_START_S_MAX):
                raise ArmError(f"{self.name} did not go on within {_START_S_MAX:.0f} s.", self.last_words())

    def suspend(self) -> None:
        """Hold the children still."""
        self._signal(signal.SIGSTOP)

    def _signal(self, number: signal.Signals) -> None:
        for child in self._children:
            if child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child.pid, number)

    def close(self) -> list[dict[str, int]]:
        """Ask the children to end, wait, and make sure."""
        self.panel.end()
        self._signal(signal.SIGCONT)
        try:
            for child in self._children:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(_END_S_MAX)
        finally:
            for child in self._children:
                if child.poll() is None:
                    child.kill()
                    child.wait()
        self._children = []
        return [json.loads(file.read_text(encoding="utf-8")) for file in self.counts_files() if file.exists()]

    def counts_files(self) -> list[Path]:
        """Where the children left what their sinks held."""
        return [Path(f"{self.path}.{at}.counts") for at in range(self.partitions)]
