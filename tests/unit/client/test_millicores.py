"""Thousandths of cores are exact, and who does not know of them reads no fewer cores."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from coplace_client.millicores import (
    beside_cores,
    cores_text,
    exact_cores,
    millicores,
    require_rounded,
    whole_cores,
)

THOUSANDTHS = st.integers(0, 10**12)


@given(THOUSANDTHS)
def test_what_a_message_says_in_both_fields_is_the_same_amount(held: int) -> None:
    cores, finer = whole_cores(held), beside_cores(held)
    assert millicores(cores, finer) == held
    assert 0 <= cores * 1000 - held < 1000
    assert bool(finer) == (held % 1000 != 0)
    require_rounded("cores", cores, finer)


@given(THOUSANDTHS)
def test_prices_multiply_exactly_what_is_held(held: int) -> None:
    assert Fraction(exact_cores(held)) == Fraction(held, 1000)
    assert Decimal(cores_text(held)) == exact_cores(held)


def test_whole_cores_are_written_as_they_were() -> None:
    assert [cores_text(held) for held in (16_000, 250, 1_500)] == ["16", "0.25", "1.5"]
    assert str(exact_cores(16_000)) == "16"


@pytest.mark.parametrize(("cores", "finer"), [(0, 250), (2, 250), (1, 1001), (1, 2000)])
def test_cores_that_are_not_their_thousandths_rounded_up_are_refused(
    cores: int, finer: int
) -> None:
    with pytest.raises(RejectedError, match="cores: must be"):
        require_rounded("cores", cores, finer)
