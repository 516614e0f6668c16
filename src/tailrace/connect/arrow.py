"""Whether pyarrow is there: DataFrames need it, everything else does without."""

from __future__ import annotations

import importlib.util

from .errors import ArrowMissingError


def need_arrow() -> None:
    """Say what to do where there is no pyarrow."""
    if importlib.util.find_spec("pyarrow") is None:
        raise ArrowMissingError(
            "DataFrames go in and out as Arrow batches, and pyarrow is not installed.",
            "Install it: pip install 'tailrace[dataframe]', on the driver and on the executors.",
        )
