from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.energy_tariff import Tariff

HOUR_S = 3600.0
times_s = st.floats(0, 1e6)


def test_a_kilowatt_for_an_hour_costs_the_price_of_that_hour() -> None:
    tariff = Tariff((0.1, 0.3))
    assert tariff.cost(1000, HOUR_S, 2 * HOUR_S) == pytest.approx(0.3)
    assert tariff.cost(1000, HOUR_S / 2, 3 * HOUR_S / 2) == pytest.approx(0.2)
    assert tariff.cost(1000, 10 * HOUR_S, 11 * HOUR_S) == pytest.approx(0.1)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=30), times_s, times_s, times_s)
def test_costs_of_parts_add_up(prices: list[float], a: float, b: float, c: float) -> None:
    start_s, middle_s, end_s = sorted((a, b, c))
    tariff = Tariff(tuple(prices))
    parts = tariff.cost(500, start_s, middle_s) + tariff.cost(500, middle_s, end_s)
    assert parts == pytest.approx(tariff.cost(500, start_s, end_s), abs=1e-6)


def test_the_next_drop_is_the_first_cheaper_hour() -> None:
    tariff = Tariff((0.2, 0.3, 0.1))
    assert tariff.next_drop_s(0) == 2 * HOUR_S
    assert tariff.next_drop_s(HOUR_S + 5) == 2 * HOUR_S
    assert tariff.next_drop_s(2 * HOUR_S) == Tariff((0.2,)).next_drop_s(1e5) == inf


@pytest.mark.parametrize("prices", [(), (-1.0,), (inf,)])
def test_prices_that_are_none_are_refused(prices: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="tariff"):
        Tariff(prices)
