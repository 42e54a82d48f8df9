"""Kueue tries again at the expected start, within bounds."""

import pytest

from services.kueue.model.explained_wait import ExplainedWait

NOW_US = 1_767_225_600_000_000


@pytest.mark.parametrize(("in_s", "delay_s"), [(None, 60), (-5, 5), (1, 5), (20.5, 21), (3600, 60)])
def test_the_delay_is_until_the_expected_start(in_s: float | None, delay_s: int) -> None:
    expected_us = 0 if in_s is None else NOW_US + round(in_s * 1e6)
    assert ExplainedWait("why", expected_us).delay_s(NOW_US) == delay_s


def test_users_read_why_and_when() -> None:
    assert ExplainedWait("no nodes", NOW_US).words == (
        "Coplace: no nodes; expected to start at 2026-01-01T00:00:00Z"
    )
    assert ExplainedWait().words == "Coplace: it waits for its turn"
