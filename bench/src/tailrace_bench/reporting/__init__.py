"""What comes of a bench: ``rows`` and their arithmetic, ``report`` as table and JSON, ``plots`` as curves."""

from __future__ import annotations
