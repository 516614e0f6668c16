"""Lever: pre-scheduling of micro-batches by what each executor can carry."""
