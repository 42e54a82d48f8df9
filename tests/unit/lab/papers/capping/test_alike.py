"""How errors of ended jobs are alike: estimated from errors that were made so."""

from math import sqrt
from random import Random

import pytest

from lab.papers.capping.alike import Judged, alike


def judged(correlation: float, said_sd: float, true_sd: float, jobs: int = 12_000) -> list[Judged]:
    """Two users; a campaign of 20 jobs of one of them has an error in common."""
    rng, found, common = Random(1), list[Judged](), 0.0
    for number in range(jobs):
        if number % 20 == 0:
            common = rng.gauss(0, 1)
        own = rng.gauss(0, 1)
        error = true_sd * (sqrt(correlation) * common + sqrt(1 - correlation) * own)
        found.append(Judged("ab"[number // 20 % 2], said_sd, error))
    return found


@pytest.mark.parametrize("correlation", [0.0, 0.5, 1.0])
def test_what_predictions_do_not_say_of_their_errors_is_found(correlation: float) -> None:
    found = alike(judged(correlation, said_sd=0.1, true_sd=0.26), lag=19)
    assert found.runs_sd == pytest.approx(sqrt(0.26**2 - 0.1**2), rel=0.05)
    assert found.correlation == pytest.approx(correlation, abs=0.05)


def test_nothing_is_added_to_deviations_that_say_enough() -> None:
    assert alike(judged(0.0, said_sd=0.3, true_sd=0.2), lag=19).runs_sd < 1e-6


def test_jobs_of_others_and_jobs_that_ended_before_are_no_pairs() -> None:
    apart = [Judged("ab"[n % 2], 0.1, 0.1) for n in range(40)]
    assert alike(apart, lag=1).correlation == 0.0
    assert alike(apart, lag=2).correlation == pytest.approx(1.0)


def test_a_prediction_is_held_to_what_was_drawn() -> None:
    assert Judged.of("a", 0.1, 100.0, 100.0).error == 0.0
    assert Judged.of("a", 0.1, 100.0, 200.0).error == pytest.approx(0.6931, abs=1e-4)
