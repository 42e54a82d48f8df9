"""Caps hold by the nameplates where nothing says what jobs draw."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chaos.unknown_power import System


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1 << 32))
def test_no_start_lets_more_be_drawn_by_nameplate_than_a_cap_allows(seed: int) -> None:
    System(Random(seed)).play()
