"""A driver to be killed: a durable word count on the embedded Spark that says what it has done, in lines."""

import sys
import time
from pathlib import Path

from tests.durability.durable_count import counted

import tailrace as tr

if __name__ == "__main__":
    folder, per_s, sentences = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    flow = counted(folder / "counts", per_s, sentences)
    every = tr.Checkpoint(folder / "checkpoint", every_s=0.3)
    settings = tr.Settings(register_timeout_s=200.0, progress_s=0.2)
    query = tr.start(flow, workers=2, settings=settings, checkpoint=every)
    print(*(member.register.pid for member in query._brain.members.values()), flush=True)  # noqa: T201
    while query.isActive:
        print((query.lastProgress or {}).get("completed", 0), flush=True)  # noqa: T201
        time.sleep(0.1)
    if query.exception() is not None:
        raise query.exception()
    print("ended", flush=True)  # noqa: T201
