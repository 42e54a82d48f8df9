"""Bounds of quantities: what is refused, and which unit was meant."""

import math

import pytest

from shared.domain.bounds import LENGTHS, QUANTITIES
from shared.domain.errors import RejectedError


@pytest.mark.parametrize(
    ("field", "value", "hint"),
    [
        ("freq_ghz", 1200, "is that MHz?"),
        ("freq_ghz", 2_400_000, "is that kHz?"),
        ("pstates_ghz", 2.4e9, "is that Hz?"),
        ("power_w", 0.35, "is that kW?"),
        ("idle_power_w", 110_000, "is that mW?"),
        ("memory_gib", 256 * 2**30, "is that bytes?"),
        ("memory_gib_per_node", 192 * 2**30, "is that bytes?"),
        ("mem_gbps", 80e9, "is that bytes/s?"),
        ("walltime_s", 3_600e6, "is that us?"),
    ],
)
def test_a_value_in_another_unit_is_told_which(field: str, value: float, hint: str) -> None:
    with pytest.raises(RejectedError) as error:
        QUANTITIES[field].require(field, value)
    assert str(error.value).endswith(hint)


@pytest.mark.parametrize("field", sorted(QUANTITIES))
def test_values_at_the_bounds_are_taken_and_those_beyond_are_not(field: str) -> None:
    bound = QUANTITIES[field]
    for value in (bound.least, bound.most, bound.most * (1 + 1e-12)):
        bound.require(field, value)
    for value in (
        bound.least - 1 - abs(bound.least),
        bound.most * 2,
        math.nan,
        math.inf,
        -math.inf,
    ):
        with pytest.raises(RejectedError, match=f"{field}: must be from"):
            bound.require(field, value)


def test_a_list_that_is_too_long_is_refused_by_its_length() -> None:
    with pytest.raises(RejectedError, match="depends_on: must hold at most 64, got 65"):
        LENGTHS["depends_on"].require("depends_on", 65)
