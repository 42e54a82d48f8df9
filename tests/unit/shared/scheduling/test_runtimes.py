import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.scheduling.pool import Discipline, Pool
from shared.scheduling.runtimes import Passed, PredictingPool, UserRuntimes
from shared.scheduling.timeline import play
from shared.scheduling.workload import Schedule
from tests.unit.shared.scheduling.plain_one_pool import PlainJob, plain_predicted_starts
from tests.unit.shared.scheduling.systems import one_pool


@pytest.mark.parametrize(
    ("users", "limits_s", "runs_s", "expected_s"),
    [
        ([7, 7], [100.0] * 2, [10.0] * 2, 100.0),
        ([7, 7, 7, 8, 7], [100.0] * 5, [90.0, 10.0, 30.0, 99.0, 50.0], 20.0),
        ([7, 7, 7], [100.0, 100.0, 15.0], [90.0, 90.0, 5.0], 15.0),
    ],
    ids=["too few ended", "the mean of two", "not above the request"],
)
def test_the_last_two_runs_of_a_user_predict_the_next(
    users: list[int], limits_s: list[float], runs_s: list[float], expected_s: float
) -> None:
    runtimes = UserRuntimes(users, [0.0] * len(users), runs_s)
    *ended, last = range(len(users))
    for job in ended:
        runtimes.ended(job)
    assert runtimes.expected(last).predict_s(limits_s[last]) == expected_s


UNITS = 6
times_s = st.sampled_from([1.0, 2.0, 3.0, 5.0, 8.0, 13.0])
jobs_of_users = st.lists(
    st.tuples(
        st.builds(
            PlainJob,
            submit_s=st.integers(0, 40).map(float),
            units=st.integers(1, UNITS),
            limit_s=times_s,
            run_s=times_s,
        ).map(lambda job: job._replace(run_s=min(job.run_s, job.limit_s))),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=40,
).map(lambda jobs: sorted(jobs, key=lambda each: each[0].submit_s))


def _predicted(
    jobs: list[PlainJob], users: list[int], passing_share: float, units: int
) -> Schedule:
    submit_s, _, _, run_s = ([*column] for column in zip(*jobs, strict=True))
    runtimes = UserRuntimes(users, submit_s, run_s)
    pool = PredictingPool(units, runtimes=runtimes, passing_share=passing_share)
    return play([pool], one_pool(jobs), Discipline.EASY)


@settings(max_examples=300, deadline=None)
@given(jobs_of_users, st.sampled_from([0.0, 0.05, 0.5, 1.0]))
def test_every_job_starts_when_a_plain_loop_starts_it(
    jobs: list[tuple[PlainJob, int]], passing_share: float
) -> None:
    plain, users = [job for job, _ in jobs], [user for _, user in jobs]
    expected_s = plain_predicted_starts(UNITS, plain, users, passing_share)
    assert _predicted(plain, users, passing_share, UNITS).start_s.tolist() == expected_s


@settings(max_examples=100, deadline=None)
@given(jobs_of_users, st.sampled_from([0.05, 1.0]))
def test_the_first_promise_to_each_job_that_waits_is_kept(
    jobs: list[tuple[PlainJob, int]], passing_share: float
) -> None:
    plain, users = [job for job, _ in jobs], [user for _, user in jobs]
    schedule = _predicted(plain, users, passing_share, UNITS)
    assert schedule.promised_s is not None
    promised = ~np.isnan(schedule.promised_s)
    assert (schedule.start_s[promised] <= schedule.promised_s[promised]).all()


@settings(max_examples=100, deadline=None)
@given(jobs_of_users)
def test_where_nothing_may_pass_by_predictions_it_is_easy(
    jobs: list[tuple[PlainJob, int]],
) -> None:
    plain, users = [job for job, _ in jobs], [user for _, user in jobs]
    easy = play([Pool(UNITS)], one_pool(plain), Discipline.EASY)
    assert _predicted(plain, users, 0.0, UNITS).start_s.tolist() == easy.start_s.tolist()


def _crowded(first: int) -> Schedule:
    """Two runs of user 1 were short; a job has three units of four until 1,030 s, one that asks for
    `first` waits."""
    submit_s = [0.0, 0.0, 30.0, 30.0, 40.0, 50.0, 60.0]
    units = [1, 1, 3, 1, first, 1, 1]  # until the fourth ends, at 100 s, nothing can pass
    limit_s = [100.0, 100.0, 1000.0, 70.0, 100.0, 300.0, 100.0]
    run_s = [20.0, 20.0, 1000.0, 70.0, 100.0, 300.0, 20.0]
    jobs, users = [*map(PlainJob, submit_s, units, limit_s, run_s)], [1, 1, 2, 2, 2, 3, 1]
    return _predicted(jobs, users, 1.0, 4)


def test_the_shortest_by_prediction_passes_before_what_came_earlier() -> None:
    assert _crowded(first=2).start_s[[4, 5, 6]].tolist() == [1030, 120, 100]


def test_a_job_that_needs_all_units_is_passed_as_under_easy() -> None:
    assert _crowded(first=4).start_s[[4, 5, 6]].tolist() == [1030, 100, 400]


def test_what_was_refused_is_looked_at_again_where_what_passes_moves_the_reservation() -> None:
    """A job of one unit is refused at 148 s, since it would end behind the shadow time. At 158 s a
    shorter one comes and passes, and the reservation is later, yet before the first promise."""
    submit_s = [*(1, 41, 43, 48, 53, 53, 58, 60, 61, 63, 68), *(108, 128, 130, 132, 133, 143, 148)]
    submit_s += [153, 153, 158, 178]
    units = [5, 4, 5, 5, 5, 3, 3, 2, 4, 1, 2, 2, 2, 2, 2, 4, 2, 1, 3, 3, 1, 3]
    limit_s = [*(20, 320, 10, 80, 5, 40, 160, 320, 320, 40, 40), *(160, 80, 40, 160, 5, 10, 160)]
    limit_s += [320, 10, 80, 320]
    run_s = [1, 5, 5, 40, 5, 1, 1, 320, 5, 2, 2, 5, 40, 40, 5, 2, 2, 5, 5, 2, 1, 1]
    users = [1, 1, 2, 2, 1, 1, 1, 2, 1, 1, 1, 1, 2, 2, 1, 2, 2, 1, 1, 1, 1, 1]
    jobs = [*map(PlainJob, submit_s, units, limit_s, run_s)]
    expected_s = plain_predicted_starts(8, jobs, users, 1.0)
    assert _predicted(jobs, users, 1.0, 8).start_s.tolist() == expected_s
    assert expected_s[17] == 158


def test_predictions_are_for_easy_alone() -> None:
    runtimes = UserRuntimes([1], [0.0], [10.0])
    with pytest.raises(ValueError, match="fcfs"):
        PredictingPool(2, runtimes=runtimes).scheduler(Discipline.FCFS, 0)


def test_what_passed_counts_with_what_it_took_once_it_has_ended() -> None:
    passed = Passed()
    passed.take(1, 0.0, 3, 100.0)
    passed.take(2, 10.0, 5, 100.0)
    passed.correct(1, 20.0)
    assert passed.since(0.0) == 560.0
    assert passed.since(5.0) == 500.0
    passed.correct(1, 7.0)
    assert passed.since(5.0) == 500.0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["take", "correct", "drop", "since"]),
            st.integers(0, 4),
            st.integers(0, 9).map(float),
        )
    )
)
def test_what_passed_is_the_sum_of_what_started_since_whatever_was_asked_before(
    steps: list[tuple[str, int, float]],
) -> None:
    passed, plain = Passed(), dict[int, tuple[float, float]]()
    for step, job, time_s in steps:
        if step == "take":
            passed.take(job, time_s, 2, 10.0)
            plain[job] = time_s, 20.0
        elif step == "drop":
            passed.drop(job)
            plain.pop(job, None)
        elif step == "correct":
            passed.correct(job, time_s)
            if job in plain:
                plain[job] = plain[job][0], 2 * time_s
        expected = sum(took for start_s, took in plain.values() if start_s >= time_s)
        assert passed.since(time_s) == Passed(passed.jobs).since(time_s) == expected
