"""A share of the built-in jobs is interactive, and the rest as before."""

from dataclasses import replace

from lab.workloads.clusters import clusters
from lab.workloads.generate import built_in
from lab.workloads.interactive import with_interactive
from lab.workloads.request import RequestedDependency
from shared.domain.job import Condition

JOBS = built_in(1, 200, clusters())


def test_none_is_where_the_share_is_0_and_all_but_arrays_where_it_is_1() -> None:
    assert with_interactive(JOBS, 1, 0.0) == JOBS
    array = replace(JOBS[0], array="0-3")
    found = with_interactive([array, *JOBS[1:]], 1, 1.0)
    assert [each.is_interactive for each in found] == [False, *[True] * 199]


def test_half_of_them_wait_for_ten_minutes_at_most_but_those_that_others_wait_for() -> None:
    of_first = RequestedDependency(JOBS[0].index, Condition.AFTER_OK)
    behind = [replace(each, depends_on=(of_first,)) for each in JOBS[1:]]
    for seed in range(5):
        first, *others = with_interactive([JOBS[0], *behind], seed, 1.0)
        assert first.starts_within_s == 0
        assert 60 < sum(each.starts_within_s == 600 for each in others) < 140


def test_a_longer_workload_begins_with_the_same_jobs() -> None:
    assert with_interactive(JOBS, 1, 0.3)[:50] == with_interactive(JOBS[:50], 1, 0.3)
