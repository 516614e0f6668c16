"""What a checkpoint may be asked for."""

from __future__ import annotations

import pytest

from tailrace.checkpoint.settings import Checkpoint
from tailrace.errors import ConfigError


@pytest.mark.parametrize("standby", [2, -1, True, "1", None, 0.5])
def test_a_worker_has_one_standby_or_none(standby):
    with pytest.raises(ConfigError, match="standby must be 0 or 1"):
        Checkpoint("somewhere", standby=standby)
