"""Checkpoints as they lie in a store: sealed objects, the log of manifests, the stores. Nothing of the runtime."""
