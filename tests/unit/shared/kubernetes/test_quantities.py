"""Kubernetes' quantities are read exactly."""

from fractions import Fraction

import pytest

from coplace_client.errors import RejectedError
from shared.kubernetes.quantities import quantity

HALF = Fraction(1, 2)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("500m", HALF), ("1.5", Fraction(3, 2)), (4, Fraction(4)), (".5", HALF)),
        *(
            ("64Gi", Fraction(64 * 2**30)),
            ("1Ei", Fraction(2**60)),
            ("128M", Fraction(128 * 10**6)),
        ),
        *(("1e3", Fraction(1000)), ("12E2", Fraction(1200)), ("1E", Fraction(10**18))),
        *(("100n", Fraction(1, 10**7)), ("3k", Fraction(3000)), ("2u", Fraction(1, 500_000))),
    ],
)
def test_a_quantity_is_its_number(text: object, number: Fraction) -> None:
    assert quantity("cpu", text) == number


@pytest.mark.parametrize("text", ["", "half", "1.2.3", "1KiB", "m", None, "1" * 41, "1e999"])
def test_what_is_none_is_refused_with_its_field(text: object) -> None:
    with pytest.raises(RejectedError, match=r"^requests\.cpu: must be a quantity"):
        quantity("requests.cpu", text)
