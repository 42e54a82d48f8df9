"""What is kept of similar jobs."""

import math

import pytest

from lab.power_prediction import history
from lab.power_prediction.history import FEATURES, PREDICTORS, PowerHistory, predictions
from shared.power_prediction.submission import UNKNOWN, Submission

JOB = Submission("1", "ada", 4.0, 3600.0)


def after(*powers_log: float, job: Submission = JOB, runs_s: float = 60.0) -> PowerHistory:
    """What is kept of jobs of one shape that drew so much."""
    kept = PowerHistory()
    for log_w in powers_log:
        kept.submit(job)
        kept.learn(job, log_w, runs_s)
    return kept


def named(row: list[float]) -> dict[str, float]:
    return dict(zip(FEATURES, row, strict=True))


def test_a_row_has_a_value_for_each_feature_and_knows_nothing_at_first() -> None:
    row = named(PowerHistory().submit(JOB))
    assert row["log2 nodes"] == 2.0
    assert row["user: last"] == row["user: log gap"] == UNKNOWN
    assert row["user: on their way"] == 0
    assert predictions(list(row.values())) is None


def test_power_counts_from_when_it_is_known_on_and_not_from_the_submission_on() -> None:
    kept = PowerHistory()
    kept.submit(JOB)
    assert named(kept.submit(JOB))["user: last"] == UNKNOWN
    kept.learn(JOB, 5.0, 60.0)
    row = named(kept.submit(JOB))
    assert (row["user: last"], row["user: on their way"]) == (5.0, 1)


def test_newer_powers_count_more_the_shorter_the_memory_is() -> None:
    row = named(after(4.0, 4.0, 4.0, 4.0, 5.0).submit(JOB))
    assert row["user: mean of about 2"] == pytest.approx(4.5)
    assert row["user: mean of about 20"] == pytest.approx(4.2)
    assert row["user: median of 3"] == 4.0
    assert row["user: last"] == 5.0


def test_a_new_shape_is_predicted_by_what_its_user_ran_else_by_what_everybody_ran() -> None:
    kept = after(5.0)
    other_shape = kept.submit(JOB._replace(nodes=64.0, walltime_s=60.0))
    other_user = kept.submit(JOB._replace(user="bob", nodes=1.0))
    for row, known in ((other_shape, 4), (other_user, 0)):
        said = predictions(row)
        assert said is not None
        assert said[0] == [5.0] * len(PREDICTORS)
        assert sum(said[1]) == known


def test_a_power_that_nobody_will_know_is_no_longer_waited_for() -> None:
    row = named(after(math.nan).submit(JOB))
    assert (row["user: on their way"], row["user: last"]) == (0, UNKNOWN)
    silent = Submission("", "")
    row = named(after(5.0, job=silent, runs_s=math.nan).submit(silent))
    assert row["user, queue, nodes, walltime: last"] == 5.0, "they are of one shape"


def test_shapes_that_came_up_longest_ago_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_OF_A_SHAPE", 2)
    kept = PowerHistory()
    for user in ("ada", "bob", "ada", "eve"):
        kept.submit(JOB._replace(user=user))
        kept.learn(JOB._replace(user=user), 5.0, 60.0)
    assert named(kept.submit(JOB))["user: log count"] > 0
    assert named(kept.submit(JOB._replace(user="bob")))["user: last"] == UNKNOWN
