"""What an application's pairs say of it, without the pair that is asked about."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.colocation.history import PairHistory
from tests.unit.shared.colocation.machines import made


@given(seed=st.integers(0, 1000), target=st.integers(0, 5), neighbour=st.integers(0, 5))
def test_no_pair_reports_itself(seed: int, target: int, neighbour: int) -> None:
    profiles, degradation = made(seed, apps=6, noise=0.1)
    changed = degradation.copy()
    # On the other machine too: it is the same pair.
    changed[:, target, neighbour] += 5.0
    changed[:, neighbour, target] -= 3.0
    before, after = (
        PairHistory.from_degradation(each, profiles.curves) for each in (degradation, changed)
    )
    # Sums without a pair are sums less it, which rounds.
    for app, other in (target, neighbour), (neighbour, target):
        for name in ("columns", "like_bubble", "like_curves", "like_targets"):
            said, after_said = (getattr(each, name)[:, app, other] for each in (before, after))
            assert said == pytest.approx(after_said, nan_ok=True), name


def test_a_neighbour_is_like_the_bubble_that_presses_as_much() -> None:
    profiles, degradation = made(3)
    place = (
        PairHistory.from_degradation(degradation, profiles.curves).columns[0, :, :, -1].diagonal()
    )
    pressure = profiles.contentiousness / 1e6 - 1
    for app in range(10):
        # Other machines count too: the place is between those of both.
        low, high = sorted(pressure[:, app])
        assert low - 0.04 <= place[app] <= high + 0.04


def test_an_application_without_a_pair_is_not_known() -> None:
    profiles, degradation = made(3)
    degradation[:, 4, :] = degradation[:, :, 4] = np.nan
    known = PairHistory.from_degradation(degradation, profiles.curves).known
    assert not known[:, 4].any()
    assert known[:, :4].all()


def test_an_application_whose_only_pair_is_the_one_asked_about_is_not_known() -> None:
    profiles, degradation = made(3)
    degradation[:, 4, 1:] = degradation[:, 1:, 4] = np.nan
    known = PairHistory.from_degradation(degradation, profiles.curves).known
    assert not known[:, 4, 0].any()
    assert known[:, 4, 1].all()
