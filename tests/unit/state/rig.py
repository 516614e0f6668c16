"""What the tests of state share: a backend on disk that has room for few keys, in folders that vanish."""

from __future__ import annotations

import pickle
import shutil
import tempfile
from pathlib import Path

from tailrace.state.backend import ValueCodec
from tailrace.state.disk import DiskBackend
from tailrace.state.scratch import ScratchStore


class TemporaryFolder:
    def __init__(self):
        self.path = Path(tempfile.mkdtemp(prefix="tailrace-test-state"))

    def close(self):
        shutil.rmtree(self.path)


def group_of(key):
    return hash(key) % 4


def place_of(key):
    """Few places, so that keys share them."""
    return group_of(key).to_bytes(4, "big") + (hash(key) % 2).to_bytes(8, "big")


def disk(*, codec=None, cache_keys=2, place=place_of, make_folder=TemporaryFolder):
    codec = codec or ValueCodec(pickle.dumps, pickle.loads)
    return DiskBackend(codec, group_of, place, lambda: ScratchStore(make_folder), cache_keys)
