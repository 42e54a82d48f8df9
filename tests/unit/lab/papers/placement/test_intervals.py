"""Means over seeds, and gains paired by seed."""

from dataclasses import dataclass

import pytest
from scipy import stats

from lab.papers.placement.intervals import Interval, gain


@dataclass(frozen=True)
class Case:
    value: float


def cases(*values: float) -> list[Case]:
    return [Case(value) for value in values]


def test_the_interval_is_students_for_the_mean() -> None:
    values = [3.0, 5.0, 4.0, 8.0]
    found = Interval.of(values)
    low, high = stats.t.interval(0.95, 3, loc=5.0, scale=stats.sem(values))
    assert (found.mean, found.half) == pytest.approx((5.0, (high - low) / 2))


def test_one_seed_has_no_interval() -> None:
    assert Interval.of([2.5]).shown(1) == "2.5"
    assert Interval.of([2.0, 4.0]).shown(1) == "3.0 ± 12.7"


def test_a_gain_is_what_is_saved_of_the_others() -> None:
    saved = gain(cases(75, 150), cases(100, 200), lambda case: case.value)  # type: ignore[arg-type, attr-defined]
    assert (saved.mean, saved.half) == pytest.approx((25, 0))
    # They are paired, so that seeds that differ do not blur them.
    ours, theirs = cases(90, 900, 9), cases(100, 1000, 10)
    saved = gain(ours, theirs, lambda case: case.value)  # type: ignore[arg-type, attr-defined]
    assert saved.mean == pytest.approx(10)
    assert saved.half == pytest.approx(0, abs=1e-9)
