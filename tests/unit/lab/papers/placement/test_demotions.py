"""The threshold on the published applications, by reading."""

from pathlib import Path

import numpy as np
import pytest

from lab.papers.placement.demotions import changed_shares, read
from lab.papers.placement.rows import UNIFORM, WORKLOADS
from lab.simulate.clusters import setup_of
from lab.simulation.epm import Epm
from lab.simulation.jobs import MODEL_JOBS, draw_apps
from lab.simulation.system import built_in_system
from shared.domain.eamc_policy import Reading
from shared.eamc.frequency import Weighing


@pytest.fixture(scope="module")
def epm(data_dir: Path) -> Epm:
    return Epm.from_models(setup_of(built_in_system(["p1", "p2"]), data_dir / "eamc").models)


@pytest.mark.parametrize("t_weight", [1.0, 1.5])
@pytest.mark.parametrize(
    ("reading", "demoted"),
    [
        (Reading.DIMENSIONLESS, set()),
        (Reading.PRINTED, {"8"}),
        (Reading.AUTHORS, {"3", "4", "8"}),
    ],
)
def test_which_applications_the_threshold_demotes(
    epm: Epm, reading: Reading, demoted: set[str], t_weight: float
) -> None:
    found = read(epm, Weighing(t_weight, reading))
    assert {app for app, last in zip(epm.apps, found.demoted, strict=True) if last} == demoted


def test_stream_is_farthest_above_its_better_cluster(epm: Epm) -> None:
    found = read(epm, Weighing(1.0))
    assert epm.apps[found.share_above.argmax()] == "8"
    assert found.share_above.max() == pytest.approx(0.33, abs=0.005)


def test_the_jobs_that_a_reading_demotes_are_those_of_its_applications_in_their_rank(
    epm: Epm,
) -> None:
    drawn = draw_apps(epm.best(), WORKLOADS[UNIFORM], 1, MODEL_JOBS)
    demoted = [epm.apps.index(app) for app in ("3", "4", "8")]
    for reading in Reading:
        for weight in (1.0, 1.5):
            _, reranked, share = changed_shares(epm, Weighing(weight, reading), UNIFORM, [1])
            assert reranked == 0
            if (weight, reading) == (1.0, Reading.AUTHORS):
                assert share == np.isin(drawn, demoted).mean() > 0.2
