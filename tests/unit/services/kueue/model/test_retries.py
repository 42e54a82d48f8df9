"""Kueue tries again at the expected start, within bounds."""

import pytest

from services.kueue.model.retries import retry_s
from shared.kubernetes.explained_wait import ExplainedWait

NOW_US = 1_767_225_600_000_000


@pytest.mark.parametrize(
    ("in_s", "tried", "delay_s"),
    [
        *((None, 9, 60), (-5, 9, 5), (1, 9, 5), (20.5, 9, 21), (3600, 9, 60)),
        *((None, 1, 5), (3600, 1, 5), (3600, 2, 10), (3600, 4, 40), (7, 3, 7), (3600, 10**9, 60)),
    ],
)
def test_the_delay_is_until_the_expected_start_and_short_at_first(
    in_s: float | None, tried: int, delay_s: int
) -> None:
    expected_us = 0 if in_s is None else NOW_US + round(in_s * 1e6)
    assert retry_s(ExplainedWait("why", expected_us), NOW_US, tried) == delay_s
