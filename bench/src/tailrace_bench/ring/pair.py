"""Two processes with one way between them, as the bench sees them: started, asked, ended.

One pair per arm is up for the whole bench; while another arm is measured both of its processes sleep.
"""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailrace_bench.errors import ArmError

from .netty import netty_command

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NETTY = "netty"
_ANSWER_S = 30.0
#: Sleeping to the point is beyond the kernel: the last stretch before a message is due is spun away, in all arms alike.
#: The longer a sender sleeps the later it wakes: at 100/s, 0.2 ms left it 38 us behind (a quarter of the time 88), 1 ms
#: leaves it 11.
_SPIN_NS_MIN = 200_000
_SPIN_SHARE = 10
#: Of an answer that makes no sense, what is shown.
_SHOWN_CHARS = 200


@dataclass(frozen=True)
class Flow:
    """What a saturated window gave."""

    received: int
    seconds: float

    @property
    def per_s(self) -> float:
        """Messages per second, counted where they arrive."""
        return (self.received - 1) / self.seconds


class Pair:
    """A sender and a receiver; a ring is as a worker's, or of a given size, which it keeps."""

    def __init__(self, kind: str, folder: Path, *, ring_bytes: int = 0) -> None:
        self.kind = kind
        self._log = folder / f"{kind}-{ring_bytes}.log"
        address = str(folder / f"{kind}-{ring_bytes}")
        self._ends = {
            role: self._start(
                netty_command(role, address) if kind == NETTY else _command(role, kind, address, ring_bytes)
            )
            for role in ("receive", "send")
        }
        self.answers = {role: self._answer(role) for role in self._ends}

    def _start(self, command: Sequence[str]) -> subprocess.Popen[str]:
        with self._log.open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - our own
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def _ask(self, role: str, **asked: Any) -> None:
        stream = self._ends[role].stdin
        if stream is not None:
            stream.write(json.dumps(asked) + "\n")
            stream.flush()

    def _answer(self, role: str) -> dict[str, Any]:
        stream = self._ends[role].stdout
        if stream is not None and select.select([stream], [], [], _ANSWER_S)[0]:
            line = stream.readline()
            found = self._read(line) if line else {"error": self._last_words()}
            if "error" not in found:
                return found
            raise ArmError(f"The {role} end of {self.kind} failed: {found['error']}.", "This is a defect.")
        raise ArmError(f"The {role} end of {self.kind} gave no answer in {_ANSWER_S:.0f} s.", self._last_words())

    def _read(self, line: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(line)
        except ValueError:
            shown = f"{line[:_SHOWN_CHARS]!r} ({len(line):,} characters)"
            return {"error": f"it said {shown}, and last of all {self._last_words()!r}"}
        return found

    def _last_words(self) -> str:
        text = self._log.read_text(encoding="utf-8", errors="replace").strip()
        return text.splitlines()[-1] if text else "it printed nothing"

    def _run(self, **asked: Any) -> dict[str, Any]:
        self._ask("receive", **asked)
        self._answer("receive")
        self._ask("send", **asked)
        self._answer("send")
        return self._answer("receive")

    def latencies_ns(self, size: int, per_s: int, count: int) -> list[int]:
        """Offer messages at a rate; tells how long after its due time each had arrived."""
        period_ns = 1_000_000_000 // per_s
        spin_ns = max(_SPIN_NS_MIN, period_ns // _SPIN_SHARE)
        found = self._run(do="latency", size=size, period_ns=period_ns, spin_ns=spin_ns, count=count)
        late_ns: list[int] = found["late_ns"]
        return late_ns

    def flood(self, size: int, seconds: float) -> Flow:
        """Send as fast as it goes."""
        found = self._run(do="flood", size=size, seconds=seconds, count=0)
        return Flow(found["received"], found["seconds"])

    def close(self) -> None:
        """Let both ends go; one that does not is ended."""
        for end in self._ends.values():
            if end.stdin is not None:
                with contextlib.suppress(OSError):
                    end.stdin.close()
        for end in self._ends.values():
            try:
                end.wait(5)
            except subprocess.TimeoutExpired:
                end.kill()
                end.wait()
            if end.stdout is not None:
                end.stdout.close()


def _command(role: str, kind: str, address: str, ring_bytes: int) -> list[str]:
    return [sys.executable, "-m", "tailrace_bench.ring.ends", role, kind, address, str(ring_bytes)]
