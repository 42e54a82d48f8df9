"""Bounds of quantities: what is refused, and which unit was meant."""

import math
import re

import pytest

from coplace_client.bounds import LENGTHS, QUANTITIES
from coplace_client.checks import require_count, require_not_negative, require_positive
from coplace_client.errors import RejectedError


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
def test_a_value_in_another_unit_is_reported_which(field: str, value: float, hint: str) -> None:
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


def test_what_is_refused_is_reported_as_people_write_it() -> None:
    for check, value, words in (
        (require_count, 0, "must be at least 1, got 0"),
        (require_positive, 0.0, "must be above 0, got 0.0"),
        (require_positive, 1e-12, "must be at least 1e-09, got 1e-12"),
        (require_not_negative, -1, "must be at least 0, got -1"),
        (require_count, 10**16, "must be at most 1,000,000,000,000,000, got 10000000000000000"),
        (QUANTITIES["attempt"].require, 0, "must be from 1 to 1,000,000, got 0"),
    ):
        with pytest.raises(RejectedError, match=f"^jobs: {re.escape(words)}$"):
            check("jobs", value)
