"""Where the extension was not built, the ring says so by name and nothing else breaks."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from tailrace.errors import TailraceError
from tailrace.transport import ring as face


def test_a_missing_extension_is_a_named_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "tailrace.transport._ring", None)
    source = Path(face.__file__).with_name("ring.py")  # which may be compiled
    spec = importlib.util.spec_from_file_location("tailrace.transport.ring_without_extension", source)
    without = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(without)
    assert without.AVAILABLE is False
    assert "extension" in without.WHY_NOT
    with pytest.raises(TailraceError, match="extension"):
        without.RingReader("anywhere")
    with pytest.raises(TailraceError, match="extension"):
        without.RingWriter("anywhere")
