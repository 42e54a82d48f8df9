"""The bound is exceeded by the share of jobs that the operator set, whatever they draw."""

import numpy as np
import pytest

from shared.power_prediction import bound as bounding
from shared.power_prediction.bound import AdaptiveBound, JobGroups, Newest, ScoreGroup

KNOWN = ScoreGroup("p1", "known")


@pytest.mark.parametrize("alpha", [0.1, 0.01])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_share_above_holds_in_each_fifth_while_the_noise_jumps_and_the_mean_walks(
    alpha: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    bound, above = AdaptiveBound(alpha), []
    sizes = np.repeat(rng.uniform(0.02, 0.4, 50), 300)
    drift = 0.1 * np.sin(np.arange(len(sizes)) / 700)
    for off in rng.standard_t(4, len(sizes)) * sizes + drift:
        is_above = 100 * off > bound.upper_w(100.0, KNOWN) - 100
        above.append(is_above)
        bound.learn(100 * off, KNOWN, is_above=is_above)
    for fifth in np.array_split(np.array(above[1_000:]), 5):
        assert fifth.mean() == pytest.approx(alpha, abs=0.01)


def test_a_group_is_held_to_its_own_scores() -> None:
    bound, calm, wild = AdaptiveBound(0.1), ScoreGroup("p1", "calm"), ScoreGroup("p1", "wild")
    for n in range(200):
        bound.learn(1.0, calm, is_above=n % 10 == 0)
        bound.learn(9.0, wild, is_above=n % 10 == 0)
    assert bound.upper_w(100.0, calm) == 101.0
    assert bound.upper_w(100.0, wild) == 109.0


def test_a_bound_that_was_always_exceeded_rises_above_all_that_was_ever_missed() -> None:
    bound = AdaptiveBound(0.1)
    assert bound.upper_w(50.0, KNOWN) == 100.0
    for _ in range(100):
        bound.learn(1.0, KNOWN, is_above=True)
    assert bound.upper_w(100.0, KNOWN) > 200.0


def test_jobs_of_users_of_whom_little_is_known_are_a_group() -> None:
    groups = JobGroups()
    for spread in range(100):
        groups.learn("p1", float(spread), 100.0)
    assert groups.of("p1", 5.0, 9).name == "few jobs of the user"
    assert groups.of("p1", 5.0, 10).name == "spread 1 of 5"
    assert groups.of("p1", 1e9, 10).name == "spread 5 of 5"


def test_clusters_beyond_the_most_share_their_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounding, "MOST_CLUSTERS", 1)
    groups = JobGroups()
    assert groups.highest_w("p1") == np.inf
    for cluster, power_w in (("p1", 100.0), ("p1", 50.0), ("p2", 300.0)):
        groups.learn(cluster, 1.0, power_w)
    assert groups.of("p3", 1.0, 50).cluster == groups.of("p2", 1.0, 50).cluster == ""
    assert groups.highest_w("p3") == 300.0
    assert groups.highest_w("p1") == 100.0


def test_the_newest_are_kept_in_order() -> None:
    newest = Newest(3)
    for value in (5.0, 1.0, 3.0, 2.0):
        newest.add(value)
    assert [newest.quantile(share) for share in (0.0, 0.5, 1.0)] == [1.0, 2.0, 3.0]
    assert newest.share_below(2.5) == pytest.approx(2 / 3)
