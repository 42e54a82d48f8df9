"""What placement asks of the power of first runs."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.domain.cluster import Cluster, NodeClass
from shared.domain.job import Job
from shared.models.spread import Stretch
from shared.placement.state.candidate import draw_mw
from shared.power_prediction.bound import FEW_JOBS
from shared.power_prediction.kinds import MOST_SIZE, KindOfJob, size_of
from shared.power_prediction.online import EndedJob, OnlineLearner
from shared.power_prediction.power_model import PowerModel

CLUSTER = Cluster("p1", "site", "model", 512, 48, (1.2, 2.7), 90.0, 200.0)
WITH_GPUS = replace(
    CLUSTER,
    nodes=4,
    declared_classes=(
        NodeClass(2, 0.0, (("gpu", 4), ("gpu:a100", 4)), (("gpu:a100", 400.0),)),
        NodeClass(2, 0.0, (("gpu", 4), ("licence", 1)), (("gpu", 250.0),)),
    ),
)
JOB = Job("a", 1, "lu.C", "ada", "physics", 8, 3600.0, "p1", True, 0.0)


def taught(*powers_w: float, job: Job = JOB, cluster: Cluster = CLUSTER) -> PowerModel:
    """Of runs that drew so much, at the nominal P-state."""
    learner, kind = OnlineLearner(0.1), KindOfJob.from_job(job, cluster, 2.7)
    for number, power_w in enumerate(powers_w):
        ended = EndedJob(f"j{number}", kind, power_w, learner.tables.predict(kind))
        learner.learn([ended], number + 1)
    return PowerModel("power@0", {"model": 333.0}, learner.tables)


SOMETIMES_MORE = [330.0, 300.0, 300.0, 300.0] * 25


def test_power_comes_from_similar_jobs_else_the_fallback_else_the_declared_idle_power() -> None:
    model = taught(*SOMETIMES_MORE)
    assert (model.version, PowerModel("power@0").version) == ("power-history@100", "power@0")
    power_w, deviation = model.predict([JOB, JOB], CLUSTER)
    assert power_w == pytest.approx([300, 300], rel=0.01)
    assert (deviation > 0).all()
    assert [len(each) for each in PowerModel().predict([], CLUSTER)] == [0, 0]
    for model, figure_w in ((PowerModel("v", {"model": 333.0}), 333.0), (PowerModel(), 90.0)):
        power_w, deviation = model.predict([JOB], CLUSTER)
        assert power_w.tolist() == [figure_w]
        assert deviation != deviation


def test_the_quantile_that_is_planned_with_is_the_calibrated_bound() -> None:
    model = taught(*SOMETIMES_MORE)
    power_w, deviation = model.predict([JOB], CLUSTER)
    planned = power_w * Stretch.planned(deviation, deviation, 0.9).power
    bound = model.tables.predict(KindOfJob.from_job(JOB, CLUSTER, 2.7))
    assert bound is not None
    assert planned == pytest.approx([bound.upper_w])


def test_the_size_of_a_job_is_reported_in_few_words() -> None:
    assert size_of(JOB) == "8 units, shareable"
    resources = tuple((f"{n:060d}", 1) for n in range(16))
    many = Job(
        *("a", 1, "", "ada", "physics", 8, 3600.0, "p1", False, 0.0),
        cores_per_unit=6,
        resources_per_unit=resources,
    )
    assert len(size_of(many)) <= MOST_SIZE


def whole(**asked: object) -> Job:
    """A job of whole nodes."""
    return replace(JOB, nodes=1, shareable=False, **asked)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def hosts() -> PowerModel:
    """Of jobs without accelerators that drew 300 W."""
    return taught(*[300.0] * 50, job=whole(), cluster=WITH_GPUS)


def test_accelerators_that_nobody_measured_count_at_their_declared_power(
    hosts: PowerModel,
) -> None:
    jobs = [whole(resources_per_unit=(("gpu", 2), ("licence", 9))), whole()]
    power_w, _ = hosts.predict(jobs, WITH_GPUS)
    assert power_w == pytest.approx([300 + 2 * 250, 300])
    without_any, _ = PowerModel("v", {"model": 333.0}).predict(jobs, WITH_GPUS)
    assert without_any == pytest.approx([333 + 2 * 250, 333])


def test_accelerators_of_a_type_are_counted_once_and_undeclared_ones_not_at_all() -> None:
    assert WITH_GPUS.accelerators_w((("gpu", 2), ("gpu:a100", 2))) == 800.0
    assert WITH_GPUS.accelerators_w((("gpu", 3), ("gpu:a100", 2))) == 1050.0
    assert WITH_GPUS.accelerators_w((("gpu:l4", 2), ("licence", 1))) == 0.0
    assert CLUSTER.accelerators_w((("gpu", 2),)) == 0.0


def test_what_jobs_with_accelerators_really_drew_takes_the_place_of_the_declared_power() -> None:
    model = taught(*[300.0] * 50, job=whole(), cluster=WITH_GPUS)
    kind = KindOfJob.from_job(whole(resources_per_unit=(("gpu", 4),)), WITH_GPUS, 2.7)
    learner = OnlineLearner(0.1)
    learner.tables = model.tables
    said = []
    for number in range(FEW_JOBS + 5):
        power = learner.tables.predict(kind)
        said.append(power.predicted_w if power else 0.0)
        learner.learn([EndedJob(f"g{number}", kind, 700.0, power)], 1_000 + number)
    assert said[:FEW_JOBS] == pytest.approx([1300.0] * FEW_JOBS)
    assert said[FEW_JOBS:] == pytest.approx([700.0] * 5)
    [host_w], _ = model.predict([whole()], WITH_GPUS)
    assert host_w == pytest.approx(300.0)


@settings(max_examples=30)
@given(st.data())
def test_the_shares_of_jobs_that_fill_a_node_add_up_to_its_declared_power(
    hosts: PowerModel, data: st.DataObject
) -> None:
    cores = data.draw(
        st.lists(st.integers(1, 16), min_size=1, max_size=6).filter(lambda each: sum(each) <= 48)
    )
    cores.append(48 - sum(cores)) if sum(cores) < 48 else None
    gpus = [data.draw(st.integers(0, 4)) for _ in cores]
    drawn_mw = 0
    for of_job, count in zip(cores, gpus, strict=True):
        job = whole(cores_per_unit=of_job, resources_per_unit=(("gpu", count),) if count else ())
        [node_w], _ = hosts.predict([job], WITH_GPUS)
        drawn_mw += draw_mw(job, WITH_GPUS, node_w, 1)
    beyond_idle_mw = 1_000 * (300 - 90 + 250 * sum(gpus))
    assert drawn_mw == pytest.approx(beyond_idle_mw, abs=2 * len(cores))
