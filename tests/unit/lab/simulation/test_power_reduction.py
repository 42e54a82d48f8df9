"""How much longer jobs take with less power, in worked numbers."""

from statistics import fmean

import pytest

from lab.simulation.power_reduction import duration_ratio, factor_of_cpi, mixed_factor


@pytest.mark.parametrize(
    ("power_ratio", "factor", "expected"),
    [
        (1.0, 1.0, 1.0),  # full power slows nobody
        (0.5, 0.0, 1.0),  # D' = D
        (0.5, 1.0, 2.0),  # D' = D / M_P
        (0.5, 0.25, 1.25),  # printed F M_D D would be half of D
        (0.8, 0.75, 1.1875),
    ],
)
def test_a_job_takes_longer_as_its_factor_says(
    power_ratio: float, factor: float, expected: float
) -> None:
    assert duration_ratio(power_ratio, factor) == pytest.approx(expected)


@pytest.mark.parametrize("cpi", [1.0, 2.0, 5.0, 0.4, 0.3])
def test_equation_4_is_a_factor_of_one_by_cpi(cpi: float) -> None:
    counted, power_ratio = max(cpi, 1.0), 0.6
    equation_4 = 1 - 1 / counted + 1 / (counted * power_ratio)
    assert duration_ratio(power_ratio, factor_of_cpi(cpi)) == pytest.approx(equation_4)


def test_mixed_factors_stay_the_same_and_are_skewed_toward_processors() -> None:
    factors = [mixed_factor(str(number)) for number in range(4000)]
    assert factors == [mixed_factor(str(number)) for number in range(4000)]
    assert all(0 <= factor <= 1 for factor in factors)
    assert fmean(factors) == pytest.approx(0.5737, abs=0.02)
    assert not any(0.25 < factor < 0.4 or 0.7 < factor < 0.75 for factor in factors)
