"""The version, in one place: packaging, the driver-worker handshake and ``tailrace --version`` read it."""

__version__ = "0.1.0"
