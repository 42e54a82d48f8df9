"""In which modes a job can run: at its own P-state as it was evaluated, at others as projected."""

from itertools import pairwise
from math import nextafter

import pytest

from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.placement.evaluate.modes import modes_of, with_slower_modes
from shared.placement.evaluate.over_pstates import OverPStates
from shared.placement.processor.placement import Placement
from shared.placement.state.candidate import Candidate, Modes
from shared.placement.state.job_record import JobRecord
from tests.unit.shared.placement.region import (
    APPS,
    PSTATES,
    T0_US,
    declared,
    feed,
    placement,
    round_of,
    signature,
    submitted,
)


def weighed(processor: Placement, **asked: object) -> JobRecord:
    """A job of the region that waits behind nothing."""
    round_of(processor, 0, submitted("job", **{"nodes": 2, **asked}))  # type: ignore[arg-type]
    found = processor.layers.state.jobs.get("job")
    assert found is not None
    return found


def found_modes(processor: Placement, job: JobRecord, *, worth: bool = False) -> Modes:
    clusters = processor.layers.evaluate.clusters()
    return modes_of([job], clusters, PolicySettings(), worth_choosing_only=worth)


def at(modes: Modes, cluster: str, freq_ghz: float) -> Candidate:
    return next(mode for mode in modes["job", cluster] if mode.freq_ghz == freq_ghz)


def test_its_own_p_state_is_as_weighed_and_all_others_are_there_too() -> None:
    processor = placement()
    job = weighed(processor)
    modes = found_modes(processor, job)
    for cluster in ("p1", "p2"):
        assert {mode.freq_ghz for mode in modes["job", cluster]} == {*PSTATES[cluster]}
        own = job.evaluated.candidate(cluster)
        assert at(modes, cluster, own.freq_ghz) is own


def test_a_mode_is_what_would_have_been_weighed_at_its_p_state() -> None:
    """Base evaluates at the nominal P-state, MinEnergy at a lower one."""
    job = weighed(processor := placement(policy=Policy.MIN_ENERGY))
    nominal = weighed(placement(policy=Policy.BASE)).evaluated.candidate("p1")
    assert job.evaluated.candidate("p1").freq_ghz < nominal.freq_ghz
    mode = at(found_modes(processor, job), "p1", nominal.freq_ghz)
    for name in ("time_s", "power_w", "planned_s", "planned_j", "walltime_s", "draw_mw"):
        assert getattr(mode, name) == pytest.approx(getattr(nominal, name), rel=1e-6), name


def test_worth_choosing_are_a_few_of_them_of_which_none_is_slower_and_dearer() -> None:
    processor = placement()
    modes = found_modes(processor, weighed(processor), worth=True)["job", "p1"]
    assert 1 < len(modes) < len(PSTATES["p1"])
    by_time = sorted(modes, key=lambda mode: mode.time_s)
    energies = [mode.energy_j for mode in by_time]
    assert energies == sorted(energies, reverse=True)


def test_a_first_run_has_its_one_mode_and_so_has_who_knew_a_p_state_that_is_gone() -> None:
    processor = placement()
    unknown = weighed(processor, app_id="never seen")
    assert found_modes(processor, unknown)["job", "p1"] == (unknown.evaluated.candidate("p1"),)
    job = weighed(known := placement())
    off = job.evaluated.candidate("p1")._replace(freq_ghz=9.9)
    job.evaluated.candidates = (off, job.evaluated.candidate("p2"))
    assert found_modes(known, job)["job", "p1"] == (off,)


def test_a_cluster_that_it_does_not_fit_on_has_none() -> None:
    processor = placement(nodes=4)
    feed(processor, [declared("p2", nodes=3, time_us=T0_US + 1)])
    job = weighed(processor, nodes=4)
    assert found_modes(processor, job).keys() == {("job", "p1")}


@pytest.mark.parametrize("policy", list(Policy))
def test_slower_modes_are_fast_enough_and_draw_ever_less_in_the_order_of_the_policy(
    policy: Policy,
) -> None:
    job = weighed(processor := placement(policy=policy))
    rules = PolicySettings(policy, cap_slowdown=1.4)
    [candidates] = with_slower_modes([job], processor.layers.evaluate.clusters(), rules)
    by_freq = found_modes(processor, job)
    for candidate in candidates:
        assert candidate.slower
        draws_mw = [candidate.draw_mw, *(mode.draw_mw for mode in candidate.slower)]
        assert all(mw <= 0.9 * before for before, mw in pairwise(draws_mw))
        for mode in candidate.slower:
            assert candidate.planned_s < mode.planned_s <= 1.4 * candidate.planned_s
            projected = at(by_freq, candidate.cluster, mode.freq_ghz)
            assert candidate.drawing(mode.draw_mw) == projected
        cost = {
            Policy.MIN_ENERGY: [mode.planned_j for mode in candidate.slower],
            Policy.MIN_RUNTIME: [mode.planned_s for mode in candidate.slower],
            Policy.BASE: [mode.planned_s for mode in candidate.slower],
        }.get(policy, [mode.distance for mode in candidate.slower])
        assert cost == sorted(cost)


def test_a_first_run_has_no_slower_mode() -> None:
    job = weighed(processor := placement(), app_id="never seen")
    rules = PolicySettings(cap_slowdown=2.0)
    [candidates] = with_slower_modes([job], processor.layers.evaluate.clusters(), rules)
    assert [candidate.slower for candidate in candidates] == [(), ()]


RULES = PolicySettings(policy=Policy.BASE)


def over_pstates(processor: Placement, rules: PolicySettings = RULES) -> OverPStates:
    """Of the first application on p1, as modes look it up."""
    job = processor.layers.state.jobs.get("job")
    assert job is not None
    modes_of([job], processor.layers.evaluate.clusters(), rules)
    found = processor.layers.evaluate.clusters._worked_out["p1"].over_pstates._values
    return found[APPS[0]]


def region() -> Placement:
    processor = placement()
    feed(processor, [submitted("job")])
    return processor


def test_it_stays_until_a_signature_or_the_rules_are_others() -> None:
    processor = region()
    first = over_pstates(processor)
    assert over_pstates(processor) is first
    assert over_pstates(processor, PolicySettings(policy=Policy.BASE, quantile=0.9)) is not first
    first = over_pstates(processor)
    feed(processor, [signature(0, "p1", time_us=2 * 10**15, cpi=2.0)])
    assert over_pstates(processor) is not first


def test_a_frequency_is_that_of_a_p_state_where_it_is_as_good_as_equal() -> None:
    row = over_pstates(region())
    for pstate, ghz in enumerate(PSTATES["p1"]):
        assert row.ghz[row.of(ghz) or 0] == row.ghz[row.of(nextafter(ghz, 9.9)) or 0]
        assert row.of(ghz) in (pstate, len(PSTATES["p1"]) - 1 - pstate)
    assert row.of(0.123) is None
