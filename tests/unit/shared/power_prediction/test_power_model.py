"""What placement asks of the power of first runs."""

import pytest

from shared.domain.cluster import Cluster
from shared.domain.job import Job
from shared.models.spread import Stretch
from shared.power_prediction.kinds import MOST_SIZE, KindOfJob, size_of
from shared.power_prediction.online import EndedJob, OnlineLearner
from shared.power_prediction.power_model import PowerModel

CLUSTER = Cluster("p1", "site", "model", 512, 48, (1.2, 2.7), 90.0, 200.0)
JOB = Job("a", 1, "lu.C", "ada", "physics", 8, 3600.0, "p1", True, 0.0)


def taught(alpha: float = 0.1) -> PowerModel:
    """A hundred runs of 300 W and some that draw more, at the nominal P-state."""
    learner, kind = OnlineLearner(alpha), KindOfJob.of(JOB, CLUSTER, 2.7)
    for number in range(100):
        power_w = 330.0 if number % 4 == 0 else 300.0
        ended = EndedJob(f"j{number}", kind, power_w, learner.tables.predict(kind))
        learner.learn([ended], number + 1)
    return PowerModel("power@0", {"model": 333.0}, learner.tables)


def test_power_comes_from_similar_jobs_else_the_fallback_else_the_declared_idle_power() -> None:
    power_w, deviation = taught().predict([JOB, JOB], CLUSTER)
    assert power_w == pytest.approx([300, 300], rel=0.01)
    assert (deviation > 0).all()
    for model, figure_w in ((PowerModel("v", {"model": 333.0}), 333.0), (PowerModel(), 90.0)):
        power_w, deviation = model.predict([JOB], CLUSTER)
        assert power_w.tolist() == [figure_w]
        assert deviation != deviation


def test_the_quantile_that_is_planned_with_is_the_calibrated_bound() -> None:
    model = taught()
    power_w, deviation = model.predict([JOB], CLUSTER)
    planned = power_w * Stretch.planned(deviation, deviation, 0.9).power
    bound = model.tables.predict(KindOfJob.of(JOB, CLUSTER, 2.7))
    assert bound is not None
    assert planned == pytest.approx([bound.upper_w])


def test_the_version_is_that_of_the_newest_rows() -> None:
    assert (taught().version, PowerModel("power@0").version) == ("power-history@100", "power@0")


def test_no_job_gives_no_figures() -> None:
    assert [len(each) for each in PowerModel().predict([], CLUSTER)] == [0, 0]


def test_the_size_of_a_job_is_told_in_few_words() -> None:
    assert size_of(JOB) == "8 units, shareable"
    resources = tuple((f"{n:060d}", 1) for n in range(16))
    many = Job(
        *("a", 1, "", "ada", "physics", 8, 3600.0, "p1", False, 0.0),
        cores_per_unit=6,
        resources_per_unit=resources,
    )
    assert len(size_of(many)) <= MOST_SIZE
