import numpy as np
import pytest

from shared.scheduling.pool import Discipline, Pool
from shared.scheduling.runtimes import PredictingPool, UserRuntimes
from shared.scheduling.timeline import play
from shared.scheduling.workload import Schedule, Workload


def test_a_user_without_two_ended_jobs_is_believed() -> None:
    runtimes = UserRuntimes([7, 7], [100.0, 100.0], [10.0, 10.0])
    runtimes.ended(0)
    assert runtimes.at_submission(1) == 100.0


def test_the_last_two_runs_of_a_user_predict_the_next() -> None:
    runtimes = UserRuntimes([7, 7, 7, 8, 7], [100.0] * 5, [90.0, 10.0, 30.0, 99.0, 50.0])
    for job in range(4):
        runtimes.ended(job)
    assert runtimes.at_submission(4) == 20.0


def test_no_prediction_is_above_the_request() -> None:
    runtimes = UserRuntimes([7, 7, 7], [100.0, 100.0, 15.0], [90.0, 90.0, 5.0])
    runtimes.ended(0)
    runtimes.ended(1)
    assert runtimes.at_submission(2) == 15.0


def _played(run_s: list[float], *, predicts: bool) -> Schedule:
    """Two runs of a user end; a long job leaves a node free, a wide one waits, the user's next
    asks for longer than until the wide one is due."""
    columns: dict[str, list[float]] = {
        "submit_s": [0.0, 0.0, 50.0, 60.0, 70.0],
        "units": [1, 1, 1, 2, 1],
        "limit_s": [1000.0, 1000.0, 100.0, 100.0, 1000.0],
    }
    made = {name: np.array(values) for name, values in columns.items()}
    workload = Workload(
        submit_s=made["submit_s"],
        order=np.arange(5)[:, np.newaxis],
        units=made["units"].astype(np.int64)[:, np.newaxis],
        limit_s=made["limit_s"][:, np.newaxis],
        run_s=np.array(run_s)[:, np.newaxis],
        power_w=np.zeros((5, 1)),
    )
    runtimes = UserRuntimes([1, 1, 2, 2, 1], columns["limit_s"], run_s)
    pool = PredictingPool(2, runtimes=runtimes) if predicts else Pool(2)
    return play([pool], workload, Discipline.EASY)


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
