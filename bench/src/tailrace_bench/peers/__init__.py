"""What the arms share: generator, user functions, counters. Only the standard library, so that any engine can run it.

In another engine's environment, without Tailrace, this folder is a package by itself: ``python -m peers.NAME``.
"""
