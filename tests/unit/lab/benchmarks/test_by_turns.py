"""The interval of paired ratios."""

import pytest

from lab.benchmarks.by_turns.__main__ import interval


def test_equal_ratios_have_no_interval_and_others_one_about_their_geometric_mean() -> None:
    assert interval([1.5, 1.5]) == pytest.approx((1.5, 1.5, 1.5))
    low, mean, high = interval([0.5, 2.0, 0.5, 2.0])
    assert mean == pytest.approx(1.0)
    assert low * high == pytest.approx(1.0)
    assert low < 0.5 < 2.0 < high
