"""A worker's private folder on its node: a probe file, its Unix socket and its ring.

Peers prove that they stand on the same node by reading the probe's nonce, which the coordinator gave them; host names
prove nothing. The folder is in shared memory where there is any, 0700, with a random name, and goes when the worker
does.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.config import Settings
    from tailrace.protocol import Peer

    from ._ring import Ring

try:
    from ._ring import Ring as NativeRing
except ImportError:
    NativeRing = None  # type: ignore[assignment,misc]

_SHM = Path("/dev/shm")  # noqa: S108 - shared memory is what it is for
_NONCE_CHARS = 32


class Nook:
    """The folder of one worker, made and removed by it."""

    def __init__(self, settings: Settings) -> None:
        base = _SHM if _SHM.is_dir() and os.access(_SHM, os.W_OK) else Path(tempfile.gettempdir())
        self.folder = base / f"tailrace-{secrets.token_hex(8)}"
        self.folder.mkdir(mode=0o700)
        self.nonce = secrets.token_hex(_NONCE_CHARS // 2)
        self.probe_path = str(self.folder / "probe")
        self._write_probe()
        self.uds_path = str(self.folder / "inbox.sock")
        self.ring: Ring | None = None
        self.ring_path = ""
        self.why_no_ring = ""
        self._make_ring(settings)

    def _write_probe(self) -> None:
        handle = os.open(self.probe_path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "w") as probe:
            probe.write(self.nonce)

    def _make_ring(self, settings: Settings) -> None:
        if settings.transport not in {"auto", "ring"}:
            self.why_no_ring = f"the setting transport is {settings.transport!r}"
        elif NativeRing is None:
            self.why_no_ring = "the native extension was not built"
        else:
            path = str(self.folder / "ring")
            try:
                self.ring = NativeRing.create(path, settings.ring_bytes)
                self.ring_path = path
            except OSError as error:
                self.why_no_ring = f"shared memory could not be had: {error}"

    def attach(self, path: str) -> Ring:
        """Attach to a peer's ring."""
        if NativeRing is None:
            raise OSError("the native extension was not built")
        return NativeRing.attach(path)

    def close(self) -> None:
        """Unmap the ring and remove the folder."""
        if self.ring is not None:
            self.ring.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def same_node(peer: Peer) -> bool:
    """Whether this process can read the peer's probe, so that both stand on one node."""
    with contextlib.suppress(OSError), open(peer.probe_path, encoding="ascii") as probe:  # noqa: PTH123
        return bool(peer.probe_nonce) and probe.read(_NONCE_CHARS + 1) == peer.probe_nonce
    return False
