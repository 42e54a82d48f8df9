"""Margins under caps: the share of a cap that is kept free, and the joint quantile of what runs.

Applications were measured at 2.6 GHz alone, so that at the nominal P-state they are in doubt. What
caps allow is worked out anew here, from the decisions and the normal distribution of Python.
"""

from collections.abc import Sequence
from math import exp, sqrt
from statistics import NormalDist
from typing import Any

import pytest
from coplace.v1.control_pb2 import POWER_SCOPE_CLUSTER, POWER_SCOPE_REGION
from coplace.v1.placement_pb2 import PlacementDecided
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.cap_measures import Measure
from shared.domain.eamc_policy import Policy
from shared.placement.budgets.joint_margin import Error, kept_for_sent_back
from shared.placement.processor.placement import Placement
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import (
    T0_US,
    capped,
    end_us,
    round_of,
    saved,
    started,
    submitted,
    verdict,
)

NODES, IDLE_W, MINUTE_US = 64, 2 * 64 * 100.0, 60_000_000
APPS = 4


def placement(**rules: object) -> Placement:
    processor = Placement({}, PolicySettings(Policy.BASE, **rules), 7.0)  # type: ignore[arg-type]
    told = [e for e in region.models(NODES) if "coefficients" not in e.id]
    told += [region.coefficients("p1", 0.3), region.coefficients("p2", 0.1)]
    told += [
        region.signature(app, cluster, T0_US + 1, freq_ghz=2.6)
        for app in range(APPS)
        for cluster in ("p1", "p2")
    ]
    region.feed(processor, told)
    return processor


def job(name: str, nodes: int = 1, app: int = 0, seconds: int = 0, user: str = "ada") -> Event:
    of: dict[str, Any] = {"nodes": nodes, "app_id": region.APPS[app], "user": user}
    return submitted(name, T0_US + 2 + seconds * 1_000_000, **of)


def region_cap(dynamic_w: float, time_us: int = T0_US) -> Event:
    return capped(POWER_SCOPE_REGION, "", (0, IDLE_W + dynamic_w), time_us=time_us)


def starts_of(decided: Sequence[PlacementDecided]) -> list[PlacementDecided]:
    return [each for each in decided if verdict(each) == "start"]


def drawn(start: PlacementDecided, runs_sd: float = 0.0) -> tuple[float, float, float]:
    """What a job is predicted to draw beyond idle, and mean and deviation of what it draws, W."""
    [on] = [c for c in start.candidates if c.cluster == start.cluster]
    nodes, square = len(start.node_indices), exp(on.power_sd**2 + runs_sd**2)
    mean_w, deviation = on.power_w * sqrt(square), on.power_w * sqrt(square * (square - 1))
    return (on.power_w - 100.0) * nodes, (mean_w - 100.0) * nodes, deviation * nodes


def user_of(job_id: str) -> str:
    """Whose job it is, of those that are submitted under `name/user`."""
    return job_id.rpartition("/")[2]


def quantile_w(
    starts: Sequence[PlacementDecided],
    risk: float,
    runs_sd: float = 0.0,
    correlation: float = 0.0,
) -> float:
    """What jobs together draw at most with the probability 1 - risk; each pair of one user's jobs
    has the correlation."""
    each = [drawn(start, runs_sd) for start in starts]
    if risk == 0.5:
        return sum(watts for watts, _, _ in each)
    deviations_w = [(user_of(start.job_id), of[2]) for start, of in zip(starts, each, strict=True)]
    pairs = sum(a_w * b_w for a, a_w in deviations_w for b, b_w in deviations_w if a == b)
    alone = sum(sd_w * sd_w for _, sd_w in deviations_w)
    deviation_w = sqrt(alone + correlation * (pairs - alone))
    return sum(mean_w for _, mean_w, _ in each) + NormalDist().inv_cdf(1 - risk) * deviation_w


submissions = st.tuples(st.integers(1, 8), st.integers(0, APPS - 1), st.sampled_from("ab"))
jobs = st.lists(submissions, min_size=1, max_size=14)


@given(
    rounds=st.lists(jobs, min_size=1, max_size=4),
    dynamic_w=st.integers(300, 30_000),
    risk=st.sampled_from([0.5, 0.3, 0.1, 0.01, 1e-4]),
    share=st.sampled_from([0.0, 0.01, 0.05]),
    runs_sd=st.sampled_from([0.0, 0.16, 1.0]),
    correlation=st.sampled_from([0.0, 0.6, 1.0]),
)
@settings(max_examples=20, deadline=None)
def test_jobs_together_exceed_no_cap_with_more_than_the_accepted_probability(
    rounds: list[list[tuple[int, int, str]]],
    dynamic_w: int,
    risk: float,
    share: float,
    runs_sd: float,
    correlation: float,
) -> None:
    """Whatever runs is held to the cap; what waits for watts alone would have been too much."""
    processor = placement(
        cap_risk=risk, cap_margin=share, cap_power_sd=runs_sd, cap_user_correlation=correlation
    )
    allowed_w = (IDLE_W + dynamic_w) * (1 - share) - IDLE_W
    running: list[PlacementDecided] = []
    told: list[Event] = [region_cap(dynamic_w)]
    for number, submissions in enumerate(rounds):
        named = [
            job(f"{number}.{n}/{user}", nodes, app, number, user)
            for n, (nodes, app, user) in enumerate(submissions)
        ]
        found = starts_of(round_of(processor, number, *told, *named))
        running += found
        told = [started(start) for start in found]
        assert quantile_w(running, risk, runs_sd, correlation) <= max(allowed_w, 0.0) + 0.01, (
            running,
            allowed_w,
        )
    [least] = [s for s in processor.queries.power().standings if s.scope == POWER_SCOPE_REGION]
    assert least.headroom_w >= -0.002 if running else True
    assert least.margin_w == pytest.approx(
        share * (IDLE_W + dynamic_w)
        + quantile_w(running, risk, runs_sd, correlation)
        - sum(drawn(start)[0] for start in running),
        abs=0.05,
    )


def test_a_cap_is_filled_until_one_job_more_would_exceed_the_joint_quantile() -> None:
    """Not as many as without deviations, more than with a deviation for each of its own."""
    counts = {}
    for risk in (0.5, 0.05):
        processor = placement(cap_risk=risk)
        named = [job(f"{n:02}") for n in range(40)]
        found = starts_of(round_of(processor, 0, region_cap(6_000.0), *named))
        assert quantile_w(found, risk) <= 6_000.0 < quantile_w([*found, found[-1]], risk)
        counts[risk] = len(found)
    each_w = drawn(found[0])
    apart = int(6_000.0 // (each_w[1] + NormalDist().inv_cdf(0.95) * each_w[2]))
    assert apart < counts[0.05] < counts[0.5]


def test_jobs_of_one_user_that_err_alike_leave_room_for_fewer_than_those_of_many() -> None:
    """As many as fit, one or as many users: where all errs as one, deviations add up."""
    counts = {}
    for correlation, users in ((0.0, 1), (1.0, 40), (0.6, 1), (1.0, 1)):
        processor = placement(cap_risk=0.05, cap_user_correlation=correlation)
        named = [job(f"{n:02}/{n % users}", user=str(n % users)) for n in range(40)]
        found = starts_of(round_of(processor, 0, region_cap(6_000.0), *named))
        more = [*found, found[-1]]
        assert quantile_w(found, 0.05, 0.0, correlation) <= 6_000.0
        assert users > 1 or quantile_w(more, 0.05, 0.0, correlation) > 6_000.0
        counts[correlation, users] = len(found)
    assert counts[1.0, 1] < counts[0.6, 1] < counts[0.0, 1] == counts[1.0, 40]
    each_w = drawn(found[0])
    assert counts[1.0, 1] == int(6_000.0 // (each_w[1] + NormalDist().inv_cdf(0.95) * each_w[2]))


def test_what_is_started_beside_jobs_of_its_user_counts_with_them_in_another_process() -> None:
    """One that lived and one that is made of its state decide the same."""
    rules: dict[str, Any] = {"cap_risk": 0.05, "cap_user_correlation": 0.6}
    lived = placement(**rules)
    told = [region_cap(4_000.0), *(job(f"{n:02}/a", user="a") for n in range(6))]
    round_of(lived, 1, *map(started, starts_of(round_of(lived, 0, *told))))
    restored = saved(lived.changes())
    rebuilt = Placement(restored, PolicySettings(Policy.BASE, **rules), 7.0)
    later = [job(f"{n}/{user}", 2, 0, 60, user) for n in range(4) for user in "ab"]
    decided = round_of(lived, 2, *later)
    assert 0 < len(starts_of(decided)) < len(later)
    assert decided == round_of(rebuilt, 2, *later)


def test_a_cap_that_leaves_no_margin_is_acted_on() -> None:
    """What runs fits as predicted, and exceeds the cap with one part in two."""
    processor = placement(cap_risk=0.5, cap_measures=(Measure.SUSPEND,))
    named = [job(f"{n:02}") for n in range(20)]
    found = starts_of(round_of(processor, 0, region_cap(6_000.0), *named))
    round_of(processor, 1, *map(started, found))
    assert not round_of(processor, 2, region_cap(6_000.0, end_us(2) - 5))
    acted = round_of(processor, 3, region.policy(end_us(3) - 5, cap_risk=0.05))
    asked = [each.job_id for each in acted if verdict(each) == "action"]
    left = [start for start in found if start.job_id not in asked]
    assert quantile_w(left, 0.05) <= 6_000.0 < quantile_w(found, 0.05)
    assert len(asked) < len(found) / 2


def test_a_job_whose_margin_no_cap_has_waits_and_blocks_nobody() -> None:
    alone_w = quantile_w(starts_of(round_of(placement(), 0, job("a", 8))), 1e-4)
    processor = placement(cap_risk=1e-4)
    jobs = job("large", 8), job("small", 1, 0, 1)
    assert region.starts(round_of(processor, 0, region_cap(alone_w - 1), *jobs)) == ["small"]
    later = round_of(processor, 1, region_cap(2 * alone_w, end_us(1) - 5))
    assert region.starts(later) == ["large"]


def test_a_margin_is_kept_of_the_cap_of_a_cluster_too() -> None:
    cap = capped(POWER_SCOPE_CLUSTER, "p1", (0, 2 * (64 * 100.0 + 3_000.0)))
    jobs = [job(f"{n:02}") for n in range(40)]
    found = starts_of(round_of(placement(cap_margin=0.5), 0, cap, *jobs))
    on_p1 = [drawn(start)[0] for start in found if start.cluster == "p1"]
    assert sum(on_p1) <= 3_000.0 < sum(on_p1) + on_p1[0]


def test_what_was_kept_in_vain_for_who_would_start_first_is_kept_twice() -> None:
    needed = Error(10.0, 4.0)
    kept = kept_for_sent_back(Error(0.0, 0.0), needed, is_first=True)
    assert kept.mean_mw > needed.mean_mw
    assert kept.variance > needed.variance
    again = kept_for_sent_back(kept, needed, is_first=True)
    assert again == Error(2 * kept.mean_mw, 2 * kept.variance)
    assert kept_for_sent_back(kept, needed, is_first=False) == kept
    assert kept_for_sent_back(kept, Error(5.0, 1.0), is_first=False) == kept
