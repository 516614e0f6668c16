"""The version, in one place: packaging, the handshake between driver and workers, and ``tailrace --version`` read it."""

__version__ = "0.1.0"
