from lab.workloads.clusters import clusters
from lab.workloads.generate import built_in
from lab.workloads.timed import with_start_terms
from shared.domain.job import Condition

JOBS = built_in(3, 400, clusters())


def test_a_share_of_the_jobs_says_when_they_may_start_and_the_others_are_as_before() -> None:
    timed = with_start_terms(JOBS, 3, 0.25)
    changed = [(a, b) for a, b in zip(JOBS, timed, strict=True) if a != b]
    assert 70 < len(changed) < 130
    begins = [b for a, b in changed if b.begin_s]
    deadlines = [b for a, b in changed if b.deadline_s]
    waiting = [b for a, b in changed if b.depends_on]
    assert min(map(len, (begins, deadlines, waiting))) > 10
    assert all(each.begin_s >= each.submit_s for each in begins)
    assert all(each.deadline_s >= each.submit_s + each.walltime_s for each in deadlines)
    singletons = [each for each in waiting if each.depends_on[0].condition is Condition.SINGLETON]
    assert all(each.job_name for each in singletons)
    accounts = {job.index: job.account for job in JOBS}
    for each in waiting:
        assert accounts[each.depends_on[0].of] == each.account
    assert with_start_terms(JOBS, 3, 0.0) == JOBS


def test_a_longer_workload_begins_with_the_same_jobs() -> None:
    assert with_start_terms(JOBS, 3, 0.5)[:100] == with_start_terms(JOBS[:100], 3, 0.5)
