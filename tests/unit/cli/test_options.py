"""``--policy`` and ``--set``: what they leave open is what ``tr.start`` has."""

from __future__ import annotations

from tailrace.cli.options import policy_from, settings_from
from tailrace.config import Policy, Settings


def test_a_policy_that_is_not_given_is_left_to_the_coordinator():
    assert policy_from([]) == Policy.auto()
    assert policy_from(["replay=fixed:10s", "placement=metis"]) == Policy(
        routing="auto", inbox="auto", replay="fixed:10s", placement="metis"
    )


def test_settings_keep_their_defaults_and_read_numbers_as_numbers():
    assert settings_from([]) == Settings()
    assert settings_from(["max_pending=1000", "progress_s=0.5"]) == Settings(max_pending=1000, progress_s=0.5)
