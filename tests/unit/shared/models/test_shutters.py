"""Slowdowns from shutters: algorithm 4, equations 7 and 8, and how sure they are."""

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.bounds import IPC
from coplace_client.errors import RejectedError
from shared.models.shutters import (
    Interference,
    Shutter,
    filtered_slowdown,
    interference,
    slowdown_interval,
    unfiltered_slowdown,
)


def test_interference_is_the_ratio_of_the_mean_ipcs_of_usable_shutters() -> None:
    shutters = [Shutter(1.00, 1.25, 1.00), Shutter(0.80, 1.00, 0.84), Shutter(1.0, 3.0, 1.2)]
    found = interference(shutters)
    assert found.slowdown_ratio == pytest.approx((1.25 + 1.0) / (1.0 + 0.82))
    assert (found.shutters_used, found.shutters_dropped) == (2, 1)
    assert unfiltered_slowdown(shutters) == pytest.approx((1.25 + 1 + 3) / (1 + 0.82 + 1.1))


@pytest.mark.parametrize(
    "shutter",
    [
        Shutter(1.0, 0.9, 1.0),  # the pause did not help
        Shutter(1.0, 1.0, 0.99),  # nor here: it must exceed both neighbours
        Shutter(1.0, 2.0, 1.05),  # a phase boundary: the neighbours differ by delta
    ],
)
def test_a_shutter_that_shows_no_contention_is_dropped(shutter: Shutter) -> None:
    assert interference([shutter]) == Interference(1.0, 0, 1)
    assert slowdown_interval([shutter] * 3) == (1.0, 1.0)


@given(st.floats(), st.floats(), st.floats())
def test_any_shutter_is_refused_or_gives_a_finite_ratio(a: float, b: float, c: float) -> None:
    possible = all(map(IPC.has, (a, b, c)))
    with nullcontext() if possible else pytest.raises(RejectedError, match="ipc_"):
        assert 1 <= interference([Shutter(a, b, c)]).slowdown_ratio <= 1e5


def noisy(count: int, seed: int, slowdown: float = 1.25) -> list[Shutter]:
    """Shutters of a job that is slowed down, with an error of 2 % each."""
    noise = 1 + 0.02 * np.random.default_rng(seed).standard_normal((count, 3))
    means = np.array([1.0, slowdown, 1.0])
    return [Shutter(*each) for each in (means * noise).tolist()]


def test_an_interval_holds_the_slowdown_as_often_as_it_says() -> None:
    held = 0
    for seed in range(30):
        low, high = slowdown_interval(noisy(30, seed), unfiltered_slowdown)
        held += low <= 1.25 <= high
    assert held >= 25  # of 30 at 95 %, with the small bootstrap's narrowness: 28 are expected


def test_an_interval_narrows_with_more_shutters_and_is_the_same_each_time() -> None:
    few, many = noisy(10, 1), noisy(160, 1)
    assert slowdown_interval(few) == slowdown_interval(few)
    assert np.ptp(slowdown_interval(many)) < np.ptp(slowdown_interval(few))
    low, high = slowdown_interval(many)
    assert low <= filtered_slowdown(many) <= high
