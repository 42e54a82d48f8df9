"""EASY with the joint quantile: what runs is held to it at every start, worked out anew."""

from collections import defaultdict
from math import ceil, exp, sqrt
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coplace_client.errors import UnusableError
from lab.papers.capping.caps import constant_cap
from lab.papers.capping.joint_easy import Doubt, JointEasy
from lab.simulation.eurora import EuroraRun, play
from lab.workloads.eurora import EuroraJob, EuroraMachine, EuroraUnit
from shared.domain.cluster import NodeClass

MACHINE = EuroraMachine(4, (NodeClass(6, 64.0, ()),))
SD, CAP_W = 0.3, 1_000.0
Asked = tuple[int, int, int, str]


def jobs_of(asked: list[Asked]) -> list[EuroraJob]:
    """Of units, W a unit and minutes; one comes every minute."""
    unit = EuroraUnit(4, 1.0, ())
    return [
        EuroraJob(str(n), "", 60.0 * n, units, unit, 60.0 * minutes, 60.0 * minutes, units * watts)
        for n, (units, watts, minutes, _) in enumerate(asked)
    ]


def played(asked: list[Asked], risk: float, correlation: float, sd: float = SD) -> EuroraRun:
    jobs, users = jobs_of(asked), [user for *_, user in asked]
    doubt = Doubt(risk, [sd] * len(jobs), users, correlation)
    dispatcher = JointEasy(MACHINE, jobs, constant_cap(CAP_W), doubt)
    return play(jobs, dispatcher, lambda served: jobs[served[1].arrival].runtime_s)


def quantile_w(run: EuroraRun, asked: list[Asked], at_s: float, risk: float, rho: float) -> float:
    """What all that runs at a time draws at most with the probability 1 - risk."""
    there = [
        (job.power_w, user)
        for job, placement, (*_, user) in zip(run.jobs, run.placements, asked, strict=True)
        if placement.start_s <= at_s < placement.end_s
    ]
    square, of_users = exp(SD * SD), defaultdict[str, list[float]](list)
    for watts, user in there:
        of_users[user].append(watts * sqrt(square * (square - 1)))
    variance = sum(
        (1 - rho) * sum(each * each for each in deviations) + rho * sum(deviations) ** 2
        for deviations in of_users.values()
    )
    mean_w = sqrt(square) * sum(watts for watts, _ in there)
    return mean_w + NormalDist().inv_cdf(1 - risk) * sqrt(variance)


@given(
    asked=st.lists(
        st.tuples(
            st.integers(1, 3), st.integers(20, 100), st.integers(1, 9), st.sampled_from("abc")
        ),
        min_size=1,
        max_size=25,
    ),
    risk=st.sampled_from([0.5, 0.1, 0.01]),
    correlation=st.sampled_from([0.0, 0.6, 1.0]),
)
@settings(max_examples=60, deadline=None)
def test_what_runs_stays_below_the_joint_quantile(
    asked: list[Asked], risk: float, correlation: float
) -> None:
    run = played(asked, risk, correlation)
    for placement in run.placements:
        found_w = quantile_w(run, asked, placement.start_s, risk, correlation)
        assert found_w <= CAP_W + 0.01


def test_what_waits_for_a_margin_starts_once_one_of_its_user_has_ended() -> None:
    """Three of them fit beside each other where each errs for itself, two where all err as one."""
    asked: list[Asked] = [(1, 235, 10, "a")] * 3
    apart, alike = (played(asked, 0.1, rho).placements for rho in (0.0, 1.0))
    assert [each.start_s for each in apart] == [0.0, 60.0, 120.0]
    assert [each.start_s for each in alike] == [0.0, 60.0, 600.0]
    others = [(1, 235, 10, user) for user in "abc"]
    assert played(others, 0.1, 1.0).placements == apart


def test_a_job_that_never_has_its_margin_is_named() -> None:
    with pytest.raises(UnusableError, match="job 1 waits for ever"):
        played([(1, 100, 5, "a"), (1, ceil(0.9 * CAP_W), 5, "a")], 0.01, 0.0)
