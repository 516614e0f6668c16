"""Checkpoints for tests: of real runs in process, so that what is read is what workers write."""

from __future__ import annotations

import tailrace as tr
from tailrace.checkpoint.stores import open_store
from tailrace.config import Settings
from tailrace.testing.inprocess import InProcess

WORDS = ["to", "be", "or", "not", "to", "be"] * 20


def counted(path):
    """Count words in a run that writes checkpoints to a folder; a history of lengths beside it, as mutable values."""
    flow = tr.Topology("words")
    words = flow.source(tr.sources.items(WORDS, partitions=2))
    words.key_by(lambda word: word).count(tasks=2, name="counts").sink(tr.sinks.discard())
    words.key_by(len).process(Lengths(), tasks=2, name="lengths").sink(tr.sinks.discard())
    every = tr.Checkpoint(path, every_s=0.0005)
    settings = Settings(progress_s=0.0002, max_pending=8, batch_max=2, slice_us=1)
    with InProcess(flow, workers=2, settings=settings, seed=3, store=open_store(path), checkpoint=every) as query:
        query.finish()


class Lengths(tr.KeyedOperator):
    """Keeps a list, changed in place."""

    def process(self, key, value, state):
        held = state.get() or {"words": []}
        held["words"].append(value)
        state.set(held)


def replace_object(store, name, harm):
    """Let an object of a checkpoint be broken: a byte flipped, cut off, of a newer format, or missing."""
    data = bytearray(store.get(name))
    store.delete(name)
    if harm == "flipped":
        data[len(data) // 2] ^= 1
    elif harm == "cut":
        del data[len(data) // 2 :]
    elif harm == "empty":
        data.clear()
    elif harm == "newer":
        data[4] = 9
    if harm != "missing":
        assert store.put_new(name, bytes(data))
