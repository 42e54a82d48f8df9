"""Which jobs explore a second clock of their application, where, and what that may cost."""

from statistics import fmean

import numpy as np
import pytest

from coplace_client.signature import Signature
from shared.eamc.chosen import ChosenPStates
from shared.eamc.frequency import EVEN, FrequencyRule, distance
from shared.models.projection import Projection, Status
from shared.placement.evaluate.exploration import MOST_LONGER, Exploration, Explored

PSTATES_GHZ = (1.2, 1.8, 2.2, 2.4, 2.7)
OWN = Signature("app", "node", 2.7, 100.0, 300.0, 0.5, 1.0, 10.0, "scale")
NONE = float("nan")


def explored(time_s: list[float], power_w: list[float]) -> Explored:
    """An application over the P-states, as a policy of least time places it."""
    times, powers = np.array([time_s], dtype=float), np.array([power_w], dtype=float)
    status = np.where(np.isnan(times), np.uint8(Status.NEVER_MEASURED), np.uint8(0))
    projection = Projection(PSTATES_GHZ, times, powers, status)
    planned = projection.planned(0.5)
    chosen = ChosenPStates.choose(projection, FrequencyRule.MIN_RUNTIME, EVEN)
    far = distance(planned.energy_j, planned.time_s)
    return Explored(projection, planned, far, chosen)


def second(at: Explored, share: float = 0.02, *known: Signature) -> Exploration | None:
    return at.second_clock(0, known or (OWN,), share)


def test_it_is_the_farthest_clock_at_which_a_job_takes_little_longer() -> None:
    found = second(explored([190, 109, 107, 105, 100], [180, 200, 230, 260, 300]))
    assert found is not None
    assert (found.freq_ghz, found.own_ghz, found.time_s) == (1.8, 2.7, 109)
    # It saves energy: all may.
    assert found.job_share == 1


def test_what_costs_more_than_the_budget_is_explored_by_as_many_as_pay_for_it() -> None:
    found = second(explored([400, 300, 200, 108, 100], [300] * 5))
    assert found is not None
    assert found.freq_ghz == 2.4
    assert found.job_share == pytest.approx(0.02 / 0.08)
    jobs = [f"north/alpha/{number}/1767225600" for number in range(4000)]
    cost = fmean(0.08 * found.is_for(job) for job in jobs)
    assert cost == pytest.approx(0.02, rel=0.15)


def test_the_same_jobs_explore_in_a_replay() -> None:
    found = second(explored([400, 300, 200, 108, 100], [300] * 5))
    assert found is not None
    once = [found.is_for(f"job-{number}") for number in range(50)]
    assert once == [found.is_for(f"job-{number}") for number in range(50)]
    assert any(once)
    assert not all(once)


def test_no_job_is_slowed_down_by_more_than_it_may() -> None:
    slow = [270.0, 180.0, 140.0, 100 * MOST_LONGER + 1, 100.0]
    assert second(explored(slow, [100, 150, 200, 250, 300])) is None


def test_without_coefficients_a_lower_clock_counts_with_what_physics_allows() -> None:
    found = second(explored([NONE, NONE, NONE, NONE, 100], [NONE, NONE, NONE, NONE, 300]))
    assert found is None  # 2.4 GHz may take 1.125 times as long
    near = explored([NONE] * 4 + [100], [NONE] * 4 + [300])
    wide = near.projection
    shifted = Projection((1.2, 1.8, 2.2, 2.5, 2.7), wide.time_s, wide.power_w, wide.status)
    found = second(near._replace(projection=shifted))
    assert found is not None
    assert (found.freq_ghz, found.power_w) == (2.5, 300)
    assert found.time_s == pytest.approx(100 * 2.7 / 2.5)
    assert found.job_share == pytest.approx(0.02 / 0.08)


def test_nothing_is_explored_once_there_are_two_clocks_or_the_policy_chooses_another() -> None:
    at = explored([190, 109, 107, 105, 100], [180, 200, 230, 260, 300])
    low = Signature("app", "node", 1.8, 109.0, 200.0, 0.5, 1.0, 10.0, "scale")
    assert second(at, 0.02, OWN, low) is None
    assert second(at, 0.02, low) is None
