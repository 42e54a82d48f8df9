"""Frequencies and clusters: equations 4 and 5 and the six policies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.eamc_policy import Policy, Reading
from shared.eamc.frequency import FrequencyRule, Weighing, choose_pstates, distance
from shared.eamc.ranking import EXCLUDED, part_eff, rank_clusters
from shared.models.projection import Projection, Status

NAN = float("nan")
values = st.lists(st.floats(1.0, 1e3), min_size=2, max_size=2)
rows = st.lists(st.tuples(values, values), min_size=1, max_size=5)


def projection(time_s: list[float], power_w: list[float]) -> Projection:
    pstates = tuple(1.0 + index for index in range(len(time_s)))
    status = np.isnan([time_s]).astype(np.uint8) * np.uint8(Status.NEVER_MEASURED)
    return Projection(pstates, np.array([time_s]), np.array([power_w]), status)


def chosen(found: Projection, rule: FrequencyRule, t_weight: float = 1.0) -> int:
    return int(choose_pstates(found, rule, Weighing(t_weight))[0])


@pytest.mark.parametrize(
    ("reading", "distances"),
    [
        (Reading.DIMENSIONLESS, [np.sqrt(4 + 2 * 1), np.sqrt(1 + 2 * 9)]),
        (Reading.PRINTED, [np.sqrt(400 + 20), np.sqrt(100 + 180)]),
        (Reading.AUTHORS, [np.hypot(2, 2 * 1), np.hypot(1, 2 * 3)]),
    ],
)
def test_the_distance_is_that_of_the_reading(reading: Reading, distances: list[float]) -> None:
    """Of normalised energy and time; as printed in their units; the authors square the weight."""
    weighing = Weighing(2.0, reading)
    far = distance(np.array([200.0, 100.0]), np.array([10.0, 30.0]), weighing)
    assert far.tolist() == pytest.approx(distances)


@given(rows)
def test_without_weight_the_authors_choose_as_the_text_says(
    drawn: list[tuple[list[float], list[float]]],
) -> None:
    energy, time = (np.array([row[k] for row in drawn]) for k in (0, 1))
    assert (distance(energy, time, Weighing(1.0, Reading.AUTHORS)) == distance(energy, time)).all()


@given(rows, st.floats(0.01, 100), st.floats(0.01, 100))
def test_the_distance_does_not_depend_on_the_units(
    drawn: list[tuple[list[float], list[float]]], per_energy: float, per_time: float
) -> None:
    energy, time = (np.array([row[k] for row in drawn]) for k in (0, 1))
    assert distance(energy * per_energy, time * per_time) == pytest.approx(distance(energy, time))


def test_each_rule_chooses_by_its_own_measure() -> None:
    found = projection([24.0, 14.0, 10.0], [100.0, 180.0, 400.0])
    assert chosen(found, FrequencyRule.MIN_ENERGY) == 0
    assert chosen(found, FrequencyRule.MIN_RUNTIME) == 2
    assert chosen(found, FrequencyRule.NOMINAL) == 2
    assert chosen(found, FrequencyRule.MIN_DISTANCE) == 1
    assert chosen(found, FrequencyRule.MIN_DISTANCE, t_weight=50.0) == 2


@pytest.mark.parametrize("rule", [r for r in FrequencyRule if r is not FrequencyRule.NOMINAL])
def test_a_pstate_without_projection_is_never_chosen(rule: FrequencyRule) -> None:
    assert chosen(projection([NAN, 20.0, NAN], [NAN, 100.0, NAN]), rule) == 1


@pytest.mark.parametrize(
    ("weighing", "efficiencies"),
    [
        (Weighing(), [np.inf, np.sqrt(2), np.sqrt(5)]),
        (Weighing(4.0, Reading.AUTHORS), [np.inf, 1 + 1.5 * 1, 2 + 1.5 * 1]),
    ],
)
def test_part_eff_compares_the_eligible_clusters_only(
    weighing: Weighing, efficiencies: list[float]
) -> None:
    """The authors add up shares."""
    energy, time = np.array([[1.0, 10.0, 20.0]]), np.array([[1.0, 10.0, 10.0]])
    found = part_eff(energy, time, np.array([[False, True, True]]), weighing)
    assert found[0].tolist() == pytest.approx(efficiencies)


@pytest.mark.parametrize(
    ("policy", "rank", "tier"),
    [
        (Policy.BASE, [EXCLUDED, 0, EXCLUDED, EXCLUDED], None),
        (Policy.MIN_RUNTIME, [0, 1, 2, EXCLUDED], [0, 0, 0]),
        (Policy.MIN_ENERGY, [0, 1, 2, EXCLUDED], [0, 0, 0]),
        (Policy.REORDER, [2, 0, 1, EXCLUDED], [0, 0, 0]),
        (Policy.PRIORITY_INC, [2, 0, 1, EXCLUDED], [2, 0, 1]),
        (Policy.PRIORITY_INC_V, [2, 0, 1, EXCLUDED], [4, 0, 1]),
    ],
)
def test_each_policy_queues_in_its_own_way(
    policy: Policy, rank: list[int], tier: list[int] | None
) -> None:
    found = rank_clusters(np.array([[1.4, 1.0, 1.35, np.inf]]), policy, threshold=0.35)
    assert found.rank[0].tolist() == rank
    if tier is not None:
        assert found.tier[0, :3].tolist() == tier


def test_a_preferred_cluster_goes_first_unless_the_job_does_not_fit() -> None:
    """Equal ones are in their declared order."""
    efficiency = np.array([[1.0, 9.0], [1.0, np.inf], [1.0, 1.0]])
    preferred = np.array([1, 1, -1])
    found = rank_clusters(efficiency, Policy.PRIORITY_INC_V, threshold=0.35, preferred=preferred)
    assert found.rank.tolist() == [[1, 0], [0, EXCLUDED], [0, 1]]
    assert found.tier[0].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("reading", "demoted"),
    [
        (Reading.DIMENSIONLESS, [False, False, True]),
        (Reading.PRINTED, [False, False, True]),
        (Reading.AUTHORS, [False, True, True]),
    ],
)
def test_the_threshold_is_a_share_of_the_best_but_for_the_authors(
    reading: Reading, demoted: list[bool]
) -> None:
    found = rank_clusters(
        np.array([[2.0, 2.4, 2.9]]), Policy.PRIORITY_INC_V, threshold=0.35, reading=reading
    )
    assert (found.tier[0] == 3).tolist() == demoted


@pytest.mark.parametrize("reading", [*Reading])
def test_a_job_that_no_cluster_can_run_is_ranked_without_a_warning(reading: Reading) -> None:
    nowhere, somewhere = [np.inf, np.inf], [2.0, 1.0]
    with np.errstate(all="raise"):
        found = rank_clusters(
            np.array([nowhere, somewhere]),
            Policy.PRIORITY_INC_V,
            threshold=0.0,
            reading=reading,
        )
    assert found.rank.tolist() == [[EXCLUDED, EXCLUDED], [1, 0]]
    assert found.tier.tolist()[1] == [2, 0]
