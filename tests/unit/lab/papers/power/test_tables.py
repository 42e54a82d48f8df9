"""The tables of `make bench-prediction`, on logs of a few jobs."""

import numpy as np
import pytest

from lab.papers.power.baselines import exponential_mean, global_mean, user_forest
from lab.papers.power.generated import generated
from lab.papers.power.run import Played, bounds, errors, of_groups, played, speed
from lab.papers.power.speed import measured

LOG = generated(1, 360, users=20)
JOBS = [(each.job, each.outcome) for each in LOG]


@pytest.fixture(scope="module")
def found() -> Played:
    return played(JOBS, "jobs")


def cells(text: str) -> dict[str, list[str]]:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    return {row[0]: row[1:] for row in rows}


def test_whoever_knows_the_power_without_noise_errs_least(found: Played) -> None:
    known = {"known": np.array([each.expected_w for each in LOG])}
    rows = cells(errors(found, known))
    of_all = {name: float(row[0]) for name, row in list(rows.items())[2:]}
    assert min(of_all, key=lambda name: of_all[name]) == "known"
    assert "Coplace" in of_all


def test_every_job_of_the_test_share_is_in_a_fifth(found: Played) -> None:
    rows = cells(of_groups(found))
    fifths = [int(row[0]) for name, row in rows.items() if name.startswith("fifth")]
    assert sum(fifths) == int(rows["all of the test share"][0]) == 108
    assert set(cells(bounds(found))) >= {"90 % bound", "99 % bound"}


def test_what_it_costs_is_reported() -> None:
    rows = cells(speed(measured(60)))
    assert "learn 60 jobs from nothing" in rows


def test_simple_predictors_know_nothing_of_the_test_share_and_of_jobs_that_run() -> None:
    first, lag = 250, 50
    others = [
        (job, outcome._replace(node_power_w=3 * outcome.node_power_w) if at >= 200 else outcome)
        for at, (job, outcome) in enumerate(JOBS)
    ]
    for predictor in (global_mean, user_forest):
        assert (predictor(JOBS, first, lag) == predictor(others, first, lag)).all()
    same, changed = exponential_mean(JOBS, lag), exponential_mean(others, lag)
    assert (same[:250] == changed[:250]).all()
    assert (same[250:] != changed[250:]).any()
