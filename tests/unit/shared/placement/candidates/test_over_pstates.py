"""What signatures say over the P-states of a cluster: worked out once for all jobs and rounds."""

from math import nextafter

from shared.domain.eamc_policy import Policy
from shared.eamc.frequency import FrequencyRule
from shared.placement.candidates.candidate import Rules
from shared.placement.candidates.modes import modes_of
from shared.placement.candidates.over_pstates import OverPStates
from shared.placement.processor import Placement
from tests.unit.shared.placement.region import APPS, PSTATES, feed, placement, signature, submitted

RULES = Rules(policy=Policy.BASE)


def over_pstates(processor: Placement, rules: Rules = RULES) -> OverPStates:
    """Of the first application on p1, as modes look it up."""
    job = processor._job_table.get("job")
    assert job is not None
    modes_of([job], processor._models.per_cluster(), rules)
    found = processor._models._worked_out["p1"].over_pstates._values
    return found[APPS[0]]


def region() -> Placement:
    processor = placement()
    feed(processor, [submitted("job")])
    return processor


def test_it_stays_until_a_signature_or_the_rules_are_others() -> None:
    processor = region()
    first = over_pstates(processor)
    assert over_pstates(processor) is first
    assert over_pstates(processor, Rules(policy=Policy.BASE, quantile=0.9)) is not first
    first = over_pstates(processor)
    feed(processor, [signature(0, "p1", time_us=2 * 10**15, cpi=2.0)])
    assert over_pstates(processor) is not first


def test_a_frequency_is_that_of_a_p_state_where_it_is_as_good_as_equal() -> None:
    row = over_pstates(region())
    for pstate, ghz in enumerate(PSTATES["p1"]):
        assert row.ghz[row.of(ghz) or 0] == row.ghz[row.of(nextafter(ghz, 9.9)) or 0]
        assert row.of(ghz) in (pstate, len(PSTATES["p1"]) - 1 - pstate)
    assert row.of(0.123) is None


def test_p_states_are_in_the_order_of_what_a_rule_goes_by() -> None:
    row = over_pstates(region())
    by_time = [row.planned_s[pstate] for pstate in row.by_cost(FrequencyRule.MIN_RUNTIME)]
    by_energy = [row.planned_j[pstate] for pstate in row.by_cost(FrequencyRule.MIN_ENERGY)]
    assert by_time == sorted(by_time)
    assert by_energy == sorted(by_energy)
    assert len(by_time) == len(by_energy) == len(row.known)
