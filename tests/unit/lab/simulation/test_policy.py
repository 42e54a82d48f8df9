import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lab.simulation.policy import ONE_POOL, SimulatedPolicy, order_of
from shared.domain.eamc_policy import Policy
from shared.scheduling.pool import Discipline
from shared.scheduling.workload import NO_ENTRY

ranks = st.lists(st.sampled_from([(0, 1), (1, 0), (0, NO_ENTRY)]), min_size=1, max_size=10)


def test_every_policy_of_placement_can_be_simulated() -> None:
    assert {policy.ranking for policy in SimulatedPolicy} - {None} == set(Policy)


def test_only_first_come_shortest_and_conservative_do_not_backfill_as_easy_does() -> None:
    others = {policy for policy in SimulatedPolicy if policy.discipline is not Discipline.EASY}
    assert others == set(ONE_POOL) - {SimulatedPolicy.EASY}


@given(ranks)
def test_every_entry_has_a_place_of_its_own(several: list[tuple[int, int]]) -> None:
    rank = np.array(several)
    order = order_of(SimulatedPolicy.REORDER, rank, np.zeros_like(rank), np.ones(rank.shape))
    entries = rank != NO_ENTRY
    assert sorted(order[entries].tolist()) == list(range(entries.sum()))
    assert (order[~entries] == NO_ENTRY).all()


def test_a_tier_is_before_the_submission_and_that_before_the_rank_or_the_shortest() -> None:
    rank, tier = np.array([[1, 0], [0, 1]]), np.array([[1, 0], [0, 1]])
    limit_s = np.ones((2, 2))
    assert order_of(SimulatedPolicy.PRIORITY_INC, rank, tier, limit_s).tolist() == [[2, 0], [1, 3]]
    flat = np.zeros_like(tier)
    assert order_of(SimulatedPolicy.REORDER, rank, flat, limit_s).tolist() == [[1, 0], [2, 3]]
    rank, limit_s = np.zeros((3, 1), dtype=np.int64), np.array([[5.0], [3.0], [5.0]])
    assert order_of(SimulatedPolicy.SJF, rank, rank, limit_s).ravel().tolist() == [1, 0, 2]


def test_the_threshold_is_of_priority_inc_v_and_of_what_starts_from_it() -> None:
    having = [policy for policy in SimulatedPolicy if policy.has_threshold]
    assert having == [SimulatedPolicy.PRIORITY_INC_V, SimulatedPolicy.LOOK_AHEAD]
