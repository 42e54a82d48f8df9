"""Trees for the predictor of job power: as trained, so evaluated."""

import numpy as np
import pytest
from sklearn.tree import ExtraTreeRegressor

from lab.power_prediction.history import FEATURES
from services.prediction.model import open_tree
from services.prediction.power_trees import train_forests
from shared.models.forest import Forest
from shared.power_prediction.forests import NEW_USER
from shared.power_prediction.submission import SUBMISSION_FEATURES, Submission, submission_row

RNG = np.random.default_rng(5)
JOBS = [Submission(str(n), "ada" if n % 3 else "bob", 2.0 ** (n % 4), 3600.0) for n in range(120)]
USERS = [(job.cluster, job.user) for job in JOBS]
LOG_W = np.array([4.0 + (job.user == "ada") * np.log2(job.nodes) / 4 for job in JOBS])
ROWS = RNG.random((len(JOBS), len(FEATURES)))
ROWS[:, : len(SUBMISSION_FEATURES)] = [submission_row(job) for job in JOBS]


def test_each_user_has_a_model_and_everybody_else_that_of_new_users() -> None:
    forests = train_forests(USERS, ROWS, LOG_W)
    assert set(forests.users) == {NEW_USER, ("", "ada"), ("", "bob")}
    said = forests.predict([USERS[7], USERS[3], ("", "eve")], ROWS[[7, 3, 3]])
    assert said[0, 3] == pytest.approx(4.75, abs=0.01)
    assert said[1, 3] == pytest.approx(4.0)
    assert 4.0 < said[2, 3] < 4.75


def test_boosted_trees_fit_what_they_were_grown_on() -> None:
    forests = train_forests(USERS, ROWS, LOG_W)
    said = forests.boosted.predict(ROWS)
    assert np.abs(said - LOG_W).mean() < 0.1 < np.abs(LOG_W.mean() - LOG_W).mean()


def test_contributions_of_the_columns_and_the_mean_add_up_to_the_prediction() -> None:
    trees = [ExtraTreeRegressor(random_state=n).fit(ROWS, LOG_W) for n in range(4)]
    forest = Forest.from_trees([open_tree(tree.tree_) for tree in trees], features=ROWS.shape[1])
    for row in ROWS[:10]:
        moved = forest.contributions(row)
        said = float(forest.predict(row[np.newaxis])[0])
        assert LOG_W.mean() + moved.sum() == pytest.approx(said)
        assert said == pytest.approx(float(np.mean([t.predict([row])[0] for t in trees])))


def test_one_job_is_enough_to_train_on() -> None:
    said = train_forests(USERS[:1], ROWS[:1], LOG_W[:1]).predict(USERS[:2], ROWS[:2])
    assert said == pytest.approx(np.full((2, 5), LOG_W[0]))
