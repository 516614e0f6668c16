"""Where checkpoints lie: one interface over folders, object stores, Hadoop's file systems and memory."""

from __future__ import annotations

from .errors import (
    ObjectMissingError,
    ObjectNameError,
    StoreAddressError,
    StoreError,
    StoreExtraMissingError,
    StoreFullError,
    StorePermissionError,
    StoreUnreachableError,
    StoreUnsupportedError,
)
from .registry import open_store
from .store import ObjectInfo, ObjectStore, Tagged, claim

__all__ = [
    "ObjectInfo",
    "ObjectMissingError",
    "ObjectNameError",
    "ObjectStore",
    "StoreAddressError",
    "StoreError",
    "StoreExtraMissingError",
    "StoreFullError",
    "StorePermissionError",
    "StoreUnreachableError",
    "StoreUnsupportedError",
    "Tagged",
    "claim",
    "open_store",
]
