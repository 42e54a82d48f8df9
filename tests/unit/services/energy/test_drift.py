"""When published coefficients are no longer as good as they say."""

from math import isnan, nan

import numpy as np
import pytest

from services.energy.drift import LEAST_RUNS, MOST_RATIO, Deviations, Drift
from services.energy.model import KernelRun
from shared.streams.state.rows import RowCodec

SD = Deviations(power=0.02, time=0.03)
PREDICTED = KernelRun(time_s=100.0, power_w=300.0, cpi=1.0, tpi=0.1)


def after(power: list[float], time: list[float] | None = None, sd: Deviations = SD) -> Drift:
    """The drift after runs with these relative errors."""
    drift = Drift()
    for of_power, of_time in zip(power, time or [0.0] * len(power), strict=True):
        measured = PREDICTED._replace(
            power_w=300 * float(np.exp(of_power)), time_s=100 * float(np.exp(of_time))
        )
        drift = drift.and_run(PREDICTED, measured, sd)
    return drift


def test_errors_as_large_as_published_make_a_ratio_of_one() -> None:
    rng = np.random.default_rng(1)
    ratios = [
        after((0.02 * rng.standard_normal(60)).tolist(), (0.03 * rng.standard_normal(60)).tolist())
        for _ in range(200)
    ]
    assert np.mean([drift.ratio for drift in ratios]) == pytest.approx(1.0, abs=0.1)
    assert not any(drift.needs_learning for drift in ratios)


@pytest.mark.parametrize(
    ("drift", "ratio", "biases", "needs_learning"),
    [
        (after([0.06] * 40), 3.0, (0.06, 0.0), True),
        (after([0.02] * 5, [-0.09] * 5), 3.0, (0.02, -0.09), False),
        (after([0.01] * 5, sd=Deviations(0.0, 0.0)), 1.0, (0.01, 0.0), False),
        (after([0.2] * 40 + [0.0] * 200), 0.0, (0.0, 0.0), False),
    ],
    ids=["draws more power", "the worse of power and time", "meters can show no less", "long ago"],
)
def test_errors_are_held_to_those_that_were_published(
    drift: Drift, ratio: float, biases: tuple[float, float], needs_learning: bool
) -> None:
    assert drift.ratio == pytest.approx(ratio, abs=0.1)
    assert (drift.power_bias, drift.time_bias) == pytest.approx(biases, abs=1e-3)
    assert drift.needs_learning == needs_learning


def test_a_few_bad_runs_are_no_verdict() -> None:
    assert after([0.2] * (LEAST_RUNS - 1)).ratio > MOST_RATIO
    assert not after([0.2] * (LEAST_RUNS - 1)).needs_learning
    assert after([0.2] * LEAST_RUNS).needs_learning


def test_without_published_deviations_there_is_no_ratio_and_no_verdict() -> None:
    drift = after([0.5] * 50, sd=Deviations(nan, nan))
    assert isnan(drift.ratio)
    assert not drift.needs_learning
    assert drift.power_bias == pytest.approx(0.5)


def test_a_learning_phase_begins_anew_but_energies_go_on() -> None:
    drift = after([0.1] * 3).restarted()
    assert (drift.runs, drift.power_bias) == (0, 0.0)
    assert drift.predicted_j == pytest.approx(3 * 30_000)
    assert drift.measured_j == pytest.approx(3 * 30_000 * np.exp(0.1))


@pytest.mark.parametrize("sd", [SD, Deviations(nan, nan)])
def test_a_restart_keeps_it(sd: Deviations) -> None:
    drift = after([0.1] * 3, sd=sd)
    again = RowCodec(Drift).decode(RowCodec(Drift).encode(drift))
    assert repr(again) == repr(drift)
