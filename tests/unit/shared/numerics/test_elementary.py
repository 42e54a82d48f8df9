"""The standard is `decimal`, whose exponentials and logarithms are rounded correctly."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.numerics.elementary import exp, exps, log, log2, logs, power

RNG = np.random.default_rng(1)


def units_in_the_last_place(found: float, true: Decimal) -> float:
    return abs(float((Decimal(found) - true) / Decimal(math.ulp(found))))


@given(st.floats(-700, 700) | st.floats(-1, 1))
def test_an_exponential_is_within_one_unit_in_the_last_place(x: float) -> None:
    with localcontext() as context:
        context.prec = 40
        assert units_in_the_last_place(exp(x), Decimal(x).exp()) < 1


@given(st.floats(1e-300, 1e300) | st.floats(0.5, 2))
def test_a_logarithm_is_within_one_unit_in_the_last_place(x: float) -> None:
    with localcontext() as context:
        context.prec = 40
        assert units_in_the_last_place(log(x), Decimal(x).ln()) < 1


def test_many_have_the_digits_of_each() -> None:
    x = np.concatenate([RNG.uniform(-750, 720, 2000), RNG.normal(0, 0.1, 2000)])
    assert exps(x).tolist() == [exp(value) for value in x.tolist()]
    positive = np.concatenate([10 ** RNG.uniform(-320, 308, 2000), RNG.normal(1, 0.1, 2000)])
    assert logs(positive).tolist() == [log(value) for value in positive.tolist()]


@pytest.mark.parametrize(
    ("x", "true"),
    [(0.0, 1.0), (1e9, math.inf), (math.inf, math.inf), (-1e9, 0.0), (-math.inf, 0.0)],
)
def test_exponentials_have_ends(x: float, true: float) -> None:
    assert exp(x) == exps(np.array([x]))[0] == true


@pytest.mark.parametrize("x", [0.0, -1.0, math.inf, -math.inf, math.nan])
def test_what_has_no_logarithm_has_none(x: float) -> None:
    assert math.isnan(log(x))
    assert np.isnan(logs(np.array([x]))).all()
    assert math.isnan(exp(math.nan))
    assert np.isnan(exps(np.array([math.nan, 1.0]))).tolist() == [True, False]


def test_powers_and_logarithms_of_two_are_exact() -> None:
    assert [log2(2.0**n) for n in range(60)] == list(range(60))
    assert power(0.5, 0.0) == 1
    assert power(0.5, 1.0) == 0.5
    assert power(0.7, 1.6) == pytest.approx(0.7**1.6, rel=1e-15)
