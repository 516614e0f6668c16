"""How tasks and key groups leave for other workers and arrive: snapshots, transfer, channels that change over."""
