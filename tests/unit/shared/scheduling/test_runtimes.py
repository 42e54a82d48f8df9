import pytest

from shared.scheduling.pool import Discipline, Pool
from shared.scheduling.runtimes import PredictingPool, UserRuntimes
from shared.scheduling.timeline import play
from shared.scheduling.workload import Schedule
from tests.unit.shared.scheduling.plain_one_pool import PlainJob
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
    runtimes = UserRuntimes(users, limits_s, runs_s)
    *ended, last = range(len(users))
    for job in ended:
        runtimes.ended(job)
    assert runtimes.predict_s(last) == expected_s


def _played(run_s: list[float], *, predicts: bool) -> Schedule:
    """Two runs of a user end; a long job leaves a node free, a wide one waits, the user's next
    asks for longer than until the wide one is due."""
    limit_s = [1000.0, 1000.0, 100.0, 100.0, 1000.0]
    jobs = map(PlainJob, [0.0, 0.0, 50.0, 60.0, 70.0], [1, 1, 1, 2, 1], limit_s, run_s)
    runtimes = UserRuntimes([1, 1, 2, 2, 1], limit_s, run_s)
    pool = PredictingPool(2, runtimes=runtimes) if predicts else Pool(2)
    return play([pool], one_pool([*jobs]), Discipline.EASY)


def test_a_job_backfills_by_its_prediction_where_its_request_is_too_long() -> None:
    run_s = [20.0, 20.0, 100.0, 100.0, 30.0]
    assert _played(run_s, predicts=False).start_s[4] > 150
    predicted = _played(run_s, predicts=True)
    assert predicted.start_s[4] == 70
    assert predicted.start_s[3] == 150


def test_a_wrong_prediction_delays_the_reservation_until_the_request_ends_at_most() -> None:
    schedule = _played([20.0, 20.0, 100.0, 100.0, 1000.0], predicts=True)
    assert schedule.start_s[4] == 70
    assert schedule.start_s[3] == 1070


def test_predictions_are_for_easy_alone() -> None:
    runtimes = UserRuntimes([1], [10.0], [10.0])
    with pytest.raises(ValueError, match="fcfs"):
        PredictingPool(2, runtimes=runtimes).scheduler(Discipline.FCFS, 0)
