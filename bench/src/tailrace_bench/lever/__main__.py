"""``python -m tailrace_bench.lever``."""

from __future__ import annotations

from .main import main

if __name__ == "__main__":
    main()
