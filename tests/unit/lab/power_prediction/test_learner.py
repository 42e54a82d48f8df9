"""The predictor as a whole: on logs whose powers can be known, and on bad ones."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from lab.power_prediction import learner as learning
from lab.power_prediction.learner import (
    ALL_PREDICTORS,
    FALLBACK_POWER_W,
    NO_HISTORY,
    UNUSABLE,
    PowerLearner,
    PredictedPower,
    replay,
)
from services.prediction.power_trees import train_forests
from shared.power_prediction.forests import Forests, User
from shared.power_prediction.submission import MeasuredPower, Submission
from tests.unit.shared.power_prediction.logs import Log, drifting_log

Floats = NDArray[np.float64]


def played(log: Log, lag: int = 20, alpha: float = 0.1) -> list[PredictedPower]:
    return list(replay(PowerLearner(train_forests, (alpha,)), log, lag))


@pytest.fixture(scope="module")
def log() -> Log:
    return drifting_log(1, 900)


@pytest.fixture(scope="module")
def predictions(log: Log) -> list[PredictedPower]:
    return played(log)


def relative_errors(log: Log, predicted_w: Sequence[float]) -> Floats:
    actual = np.array([outcome.node_power_w for _, outcome in log])
    return np.asarray(np.abs(np.array(predicted_w) / actual - 1))


def test_it_comes_near_the_noise_that_nobody_can_predict(
    log: Log, predictions: list[PredictedPower]
) -> None:
    error = relative_errors(log, [each.predicted_w for each in predictions])[450:].mean()
    mean = relative_errors(log, [140.0] * len(log))[450:].mean()
    assert error < 0.13 < mean


def test_the_share_of_jobs_above_the_bound_is_alpha(
    log: Log, predictions: list[PredictedPower]
) -> None:
    """The level may lag by what its step allows: 0.011 a job, over 700 jobs."""
    jobs = zip(log, predictions, strict=True)
    above = [outcome.node_power_w > said.upper_w[0] for (_, outcome), said in jobs][200:]
    assert np.mean(above) == pytest.approx(0.1, abs=0.03)


def test_the_same_log_is_predicted_with_the_same_digits(
    log: Log, predictions: list[PredictedPower]
) -> None:
    assert played(log[:500]) == predictions[:500]


@pytest.mark.parametrize("lag", [1, 7, 20])
def test_no_prediction_knows_what_became_known_later(log: Log, lag: int) -> None:
    """Powers from one job on are others: predictions change from the lag-th job behind it on."""
    changed_at = 61
    short, untrained = log[:120], _no_training
    others = [
        (job, MeasuredPower(3 * outcome.node_power_w) if at >= changed_at else outcome)
        for at, (job, outcome) in enumerate(short)
    ]
    first = list(replay(PowerLearner(untrained), short, lag))
    second = list(replay(PowerLearner(untrained), others, lag))
    assert first[: changed_at + lag] == second[: changed_at + lag]
    assert first[changed_at + lag :] != second[changed_at + lag :]


def _no_training(users: Sequence[User], rows: Floats, log_w: Floats) -> Forests:
    raise AssertionError("so few jobs are not trained on")


def test_forests_are_trained_on_nothing_that_is_not_known_yet(log: Log) -> None:
    seen: list[float] = []
    drew_w = [outcome.node_power_w for _, outcome in log]

    def train(users: Sequence[User], rows: Floats, log_w: Floats) -> Forests:
        seen.extend(np.exp(log_w).tolist())
        return train_forests(users, rows, log_w)

    found = replay(PowerLearner(train), log[:400], 20)
    while not seen:
        latest = next(found)
    assert latest
    assert len(seen) >= 300
    assert seen == pytest.approx(drew_w[: len(seen)])


def test_without_any_history_it_is_the_fallback_and_counted() -> None:
    learner = PowerLearner(train_forests)
    (only,) = replay(learner, drifting_log(1, 1), 50)
    assert only.predicted_w == pytest.approx(FALLBACK_POWER_W)
    assert only.upper_w == pytest.approx((2 * FALLBACK_POWER_W,))
    assert learner.counted == {NO_HISTORY: 1}


@pytest.mark.parametrize("power_w", [0.0, -5.0, 1e9, math.inf, math.nan])
def test_powers_that_no_node_can_draw_teach_nothing_and_are_counted(power_w: float) -> None:
    log = [(Submission(str(n), "ada", 1.0, 60.0), MeasuredPower(power_w)) for n in range(5)]
    log.insert(0, (Submission("good", "ada", 1.0, 60.0), MeasuredPower(150.0)))
    learner = PowerLearner(train_forests)
    predictions = list(replay(learner, log, 1))
    assert [round(each.predicted_w, 6) for each in predictions[1:]] == [150.0] * 5
    assert learner.counted[UNUSABLE] == 4


def test_a_log_that_says_nothing_but_powers_is_learned() -> None:
    log = [(Submission("", ""), MeasuredPower(150.0)) for _ in range(330)]
    assert played(log)[-1].predicted_w == pytest.approx(150.0)


def test_numbers_that_no_job_asks_for_are_no_reason_to_fail() -> None:
    wild = [math.nan, math.inf, 0.0, -1.0, 1e300, 5e-324]
    jobs = [Submission("j", "ada", n, w, n, w, n, w) for n in wild for w in wild]
    log = [(job, MeasuredPower(100.0 + n, n - 3.0)) for n, job in enumerate(jobs * 10)]
    for each in played(log):
        assert math.isfinite(each.predicted_w)
        assert each.predicted_w <= each.upper_w[0] < 1e6


def test_a_prediction_is_explained_by_predictors_features_and_past_jobs(log: Log) -> None:
    learner, asked = PowerLearner(train_forests), []

    def ask(who: PowerLearner, made: learning.Made) -> None:
        if made.job.job_id == "399":
            asked.append((made, who.reason(made)))

    found = list(replay(learner, log[:400], 20, ask=ask))
    ((made, reason),) = asked
    assert made.prediction == found[-1]
    assert set(reason.shares) == set(ALL_PREDICTORS)
    assert sum(reason.shares.values()) == pytest.approx(1.0)
    extra_w = reason.said_w["extra trees"]
    known = [outcome.node_power_w for _, outcome in log[:380]]
    base = extra_w / math.prod(reason.moved.values())
    assert min(known) < base < max(known)
    of_user = [int(job_id) for _, job_id in reason.similar["user"]]
    assert of_user
    assert all(log[at][0].user == made.job.user and at < 380 for at in of_user)
    powers = [power_w for power_w, _ in reason.similar["user"]]
    assert powers == pytest.approx([log[at][1].node_power_w for at in of_user])
