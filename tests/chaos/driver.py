"""A driver to be killed: starts a query on the embedded Spark, tells the pids of its workers, and waits."""

import time

import tailrace as tr

if __name__ == "__main__":
    flow = tr.Topology("doomed")
    flow.source(tr.sources.rate(1000)).shuffle().map(lambda v: v, tasks=2).sink(tr.sinks.discard())
    query = tr.start(flow, workers=2, settings=tr.Settings(register_timeout_s=200.0))
    print(*(member.register.pid for member in query._brain.members.values()), flush=True)  # noqa: T201
    time.sleep(600)
