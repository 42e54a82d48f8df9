"""Planning with a quantile: what is doubtful must be worth it in most cases."""

from math import exp

import pytest
from coplace.v1.placement_pb2 import PlacementDecided

from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import on, round_of, submitted

Z_90 = 1.2815515655446004


def decided(
    quantile: float, policy: Policy = Policy.MIN_ENERGY, *told: Event, **sd: float
) -> PlacementDecided:
    """The decision on one job of application 0; `sd` by cluster says how doubtful its coefficients
    are, `told` is known beside the region."""
    processor = Placement({}, PolicySettings(policy, quantile=quantile), 7.0)
    region.feed(processor, (e for e in region.models(4) if "coefficients" not in e.id))
    region.feed(processor, [region.coefficients(name, sd.get(name)) for name in region.MODELS])
    region.feed(processor, told)
    [decision] = round_of(processor, 0, submitted("a"))
    return decision


def test_a_saving_that_is_in_doubt_is_not_worth_a_lower_clock() -> None:
    assert on(decided(0.5, p1=0.3), "p1").freq_ghz < 2.7
    assert on(decided(0.9, p1=0.3), "p1").freq_ghz == 2.7


def test_between_clusters_the_one_that_is_better_known_wins() -> None:
    """p1 is faster, but where the application was measured at 2.6 GHz alone that is in doubt."""
    later = region.T0_US + 1
    elsewhere = region.signature(0, "p1", later, freq_ghz=2.6)
    assert decided(0.5, Policy.BASE, elsewhere, p1=0.3, p2=0.3).cluster == "p1"
    assert decided(0.9, Policy.BASE, elsewhere, p1=0.3, p2=0.3).cluster == "p2"


def test_the_limit_of_a_job_slowed_on_purpose_allows_for_the_upper_time() -> None:
    middle, upper = decided(0.5, p1=0.02), decided(0.9, p1=0.02)
    assert upper.freq_ghz == middle.freq_ghz < 2.7
    slower = on(middle, "p1").time_s / 50
    assert middle.walltime_s == pytest.approx(3600 * slower)
    factor = exp(Z_90 * 0.02)
    assert upper.walltime_s == pytest.approx(3600 * slower * factor)


def test_at_the_pstate_that_was_measured_the_limit_is_the_walltime() -> None:
    decision = decided(0.9, Policy.BASE, p1=0.3)
    assert (decision.freq_ghz, decision.walltime_s) == (2.7, 3600.0)


def test_candidates_say_how_far_off_they_may_be() -> None:
    known = on(decided(0.9, p1=0.02), "p1")
    assert (known.time_sd, known.power_sd) == (0.02, 0.02)
    assert known.planned_time_s == pytest.approx(known.time_s * exp(Z_90 * 0.02))
    imported = on(decided(0.9), "p1")
    assert not imported.HasField("time_sd")
    assert not imported.HasField("power_sd")
    assert (imported.planned_time_s, imported.planned_energy_j) == (
        imported.time_s,
        imported.energy_j,
    )


@pytest.mark.parametrize("policy", list(Policy))
def test_the_median_plans_as_if_nothing_were_in_doubt(policy: Policy) -> None:
    certain, doubtful = decided(0.5, policy), decided(0.5, policy, p1=0.3, p2=0.4)
    for each in doubtful.candidates:
        each.ClearField("time_sd")
        each.ClearField("power_sd")
    for each in (*certain.candidates, *doubtful.candidates):
        each.ClearField("coefficients_version")
    assert doubtful == certain
