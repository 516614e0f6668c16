"""The worker: one process that runs tasks. ``brain`` decides and touches nothing; ``loop`` waits, moves and calls."""
