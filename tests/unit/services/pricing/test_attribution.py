"""Who slowed whom: the sum of the parts is the whole, whatever was measured."""

from decimal import Decimal
from fractions import Fraction

from coplace.v1.pricing_pb2 import ChargeMade
from hypothesis import given
from hypothesis import strategies as st

from services.pricing.attribution import attribute, discount_su, lost_energy_mj
from shared.domain.money import apportion
from shared.domain.tariff import FAIR, PriceTariff, Rate
from shared.pricing.charge import AttemptEnd, ChargeRevision, charge_message, recompute
from shared.pricing.model import Evidence
from tests.support.messaging import START_US
from tests.unit.services.pricing.support import finished

_SECOND_US = 1_000_000


def charge(
    rows: list[Evidence], seconds: int = 100, energy_j: float = 1e6, node_failed: bool = False
) -> ChargeMade:
    ended_us = START_US + seconds * _SECOND_US
    run = finished(nodes=3, cores_per_node=7, ended_at_us=ended_us, energy_j=energy_j)
    rates = Rate("core", Decimal("1.234567")), Rate("energy", Decimal("0.25"))
    terms = PriceTariff("t", 1, 0, 0, FAIR, rates, operator_pays_failures=True)
    end, made = AttemptEnd(run, node_failed), ChargeRevision(1, START_US)
    return charge_message(end, made, terms, rows)


def beside(name: str, seconds: int, slowdown: float) -> Evidence:
    return Evidence(name, seconds * _SECOND_US, slowdown, shutters_used=1)


def test_who_costs_three_times_the_time_has_three_quarters() -> None:
    # 30 s of 60 s lost beside a, 10 s of 20 s beside b.
    first, second = attribute(charge([beside("a", 60, 2.0), beside("b", 20, 2.0)]))
    assert (first.share, second.share) == (Fraction(3, 4), Fraction(1, 4))
    assert [part.lost_s for part in (first, second)] == [30, 10]
    assert (first.energy_mj, second.energy_mj) == (300_000_000, 100_000_000)


def test_who_costs_no_time_has_no_part() -> None:
    assert attribute(charge([beside("a", 60, 1.0)])) == ()
    assert attribute(charge([])) == ()


def test_what_the_operator_bears_is_no_discount_of_neighbours() -> None:
    [part] = attribute(charge([beside("a", 60, 2.0)], node_failed=True))
    assert part.discount_su == 0
    assert part.share == 1


def test_of_equal_remainders_the_first_gets_the_unit() -> None:
    third = Fraction(1, 3)
    assert apportion(10, [third, third, third]) == [4, 3, 3]
    assert apportion(11, [third, third, third]) == [4, 4, 3]


_ROWS = st.lists(
    st.tuples(st.text("abc", min_size=1, max_size=3), st.integers(0, 40), st.floats(1, 1e10)),
    max_size=8,
)


@given(told=_ROWS, energy_j=st.floats(0, 1e12))
def test_shares_discounts_and_energy_sum_to_the_whole(
    told: list[tuple[str, int, float]], energy_j: float
) -> None:
    made = charge([beside(*row) for row in told], 1 + sum(row[1] for row in told), energy_j)
    parts = attribute(made)
    if not parts:
        assert discount_su(made) == 0
        assert lost_energy_mj(made) == 0
        return
    assert sum(part.share for part in parts) == 1
    assert sum(part.discount_su for part in parts) == discount_su(made)
    again = recompute(made)
    assert discount_su(made) == again.state_of_practice_su - again.price_su
    assert sum(part.energy_mj for part in parts) == lost_energy_mj(made)
    lost_s = sum(part.lost_s for part in parts)
    assert abs(float(lost_s) - (made.runtime_s - made.solo_time_s)) < 1e-6
    assert all(part.share > 0 for part in parts)
    assert all(part.discount_su >= 0 for part in parts)
    assert all(part.energy_mj >= 0 for part in parts)


@given(
    whole=st.integers(0, 10**18),
    weights=st.lists(st.integers(1, 10**12), min_size=1, max_size=300),
)
def test_no_part_is_a_unit_or_more_off_its_share(whole: int, weights: list[int]) -> None:
    shares = [Fraction(weight, sum(weights)) for weight in weights]
    parts = apportion(whole, shares)
    assert sum(parts) == whole
    assert all(abs(part - whole * share) < 1 for part, share in zip(parts, shares, strict=True))
