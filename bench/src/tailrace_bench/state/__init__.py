"""``tailrace bench state``: what durable state costs, how fast it is, and how long a recovery takes.

flow       the queries whose state is measured
checkpoints  a word count with checkpoints beside the same without
keys       a million keys: deltas, restores, both backends
recovery   workers that are killed, hosted by Spark and as plain processes
spark_peer the same kill in Spark's micro-batches with ``transformWithState``
run        the bench, made of these
"""
