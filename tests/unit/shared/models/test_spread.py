"""How far the truth may be from a projection, through every step that a projection takes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.domain.coefficients import Coefficients, Uncertainty
from shared.models.ear import Metrics, project, project_onto_models
from shared.models.spread import Stretch
from tests.unit.shared.models.test_projection import coefficients, signature

SD = np.arange(16.0).reshape(4, 4) / 100
Z_90 = 1.2815515655446004


def doubtful(missing: tuple[tuple[int, int], ...] = ()) -> Coefficients:
    return replace(coefficients(missing), uncertainty=Uncertainty(SD, 2 * SD))


def test_each_projection_has_the_deviation_of_its_pair() -> None:
    found = project(doubtful(), [signature(1.0), signature(3.0)])
    assert found.time_sd.tolist() == [SD[0].tolist(), SD[3].tolist()]
    assert found.power_sd.tolist() == [(2 * SD[0]).tolist(), (2 * SD[3]).tolist()]
    # Without residuals there is no interval rather than a narrow one.
    found = project(coefficients(), [signature()])
    assert np.isnan(found.time_sd).all()
    assert np.isnan([found.at(0.9).time_s, found.at(0.9).power_w, found.at(0.9).energy_j]).all()


def test_energy_combines_the_errors_of_power_and_of_time() -> None:
    found = project(doubtful(), [signature()])
    upper = found.at(0.9)
    deviation = np.hypot(SD[3], 2 * SD[3])
    assert upper.energy_j[0] == pytest.approx(found.energy_j[0] * np.exp(Z_90 * deviation))
    assert upper.time_s[0] == pytest.approx(found.time_s[0] * np.exp(Z_90 * SD[3]))
    assert (upper.energy_j[0] < upper.power_w[0] * upper.time_s[0]).all()


def test_the_quantiles_are_those_of_errors_with_a_normal_logarithm() -> None:
    found = project(doubtful(), [signature()])
    rng = np.random.default_rng(1)
    power_w = found.power_w[0, 1] * np.exp(found.power_sd[0, 1] * rng.standard_normal(200_000))
    time_s = found.time_s[0, 1] * np.exp(found.time_sd[0, 1] * rng.standard_normal(200_000))
    below = np.mean(power_w * time_s < found.at(0.8).energy_j[0, 1])
    assert below == pytest.approx(0.8, abs=5 * np.sqrt(0.8 * 0.2 / 200_000))


def test_variances_add_up_through_an_intermediate_pstate() -> None:
    found = project(doubtful(((3, 0),)), [signature()], via_intermediate=True)
    assert np.isnan(project(doubtful(((3, 0),)), [signature()]).time_sd[0, 0])
    # By way of the P-state 1: that path has the least variance.
    assert found.time_sd[0, 0] == pytest.approx(np.hypot(SD[3, 1], SD[1, 0]))
    assert found.power_sd[0, 0] == pytest.approx(2 * np.hypot(SD[3, 1], SD[1, 0]))


def test_intervals_follow_their_projections_to_other_tables_and_models() -> None:
    known, unknown = doubtful(), replace(coefficients(), node_model="other")
    metrics = [
        Metrics.from_signatures(known, [signature(1.0), signature(2.0)]),
        Metrics.from_signatures(unknown, [signature(node_model="other")] * 2),
    ]
    both = project_onto_models([known, unknown], metrics)
    assert both.time_sd[:, 0].tolist() == [SD[0].tolist(), SD[2].tolist()]
    assert np.isnan(both.time_sd[:, 1]).all()
    onto = project(known, [signature(1.0), signature()]).onto((0.5, 1.0, 3.0))
    assert onto.only(np.array([False, True])).time_sd[0].tolist()[1:] == [SD[3, 0], SD[3, 3]]
    assert np.isnan(onto.time_sd[:, 0]).all()


@given(st.floats(0.01, 0.99), st.floats(0, 3))
def test_quantiles_are_positive_symmetric_and_the_projection_in_the_middle(
    quantile: float, sd: float
) -> None:
    spread = np.array([sd])
    low, high = (
        Stretch.from_deviations(spread, spread, each).time for each in (quantile, 1 - quantile)
    )
    assert low[0] > 0
    assert low * high == pytest.approx(1.0)
    assert Stretch.from_deviations(spread, spread, 0.5).time.tolist() == [1.0]


@pytest.mark.parametrize("quantile", [0.0, 1.0, float("nan"), -0.5])
def test_a_quantile_that_is_none_is_refused(quantile: float) -> None:
    with pytest.raises(RejectedError, match="quantile: must be above 0 and below 1"):
        Stretch.from_deviations(np.ones(1), np.ones(1), quantile)


def test_deviations_that_are_none_are_refused() -> None:
    for bad in (-0.1, float("inf")):
        with pytest.raises(RejectedError, match="time_sd"):
            Uncertainty(np.array([[bad]]), np.zeros((1, 1)))
    with pytest.raises(RejectedError, match="time_sd: must have the shape"):
        replace(coefficients(), uncertainty=Uncertainty(np.zeros((1, 1)), np.zeros((1, 1))))
