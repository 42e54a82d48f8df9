import numpy as np
import pytest

from lab.simulation.epm import Epm, NodeModels
from shared.eamc.frequency import FrequencyRule, Weighing
from tests.unit.lab.simulation.setups import coefficients, models

EPM = Epm.from_models([models("p1"), models("p2")])
CPU, MEM = 0, 1


def test_times_are_relative_to_the_first_cluster_at_its_nominal_frequency() -> None:
    nominal = EPM.predict(FrequencyRule.NOMINAL)
    assert EPM.apps == ("cpu", "mem")
    assert EPM.best().tolist() == [0, 1]
    assert nominal.time_ratio == pytest.approx(np.array([[1, 1.5], [1, 100 / 120]]))
    assert nominal.freq_ghz.tolist() == [[2, 2], [2, 2]]
    assert nominal.node_w == pytest.approx(np.full((2, 2), 300.0))


def test_an_application_that_gains_nothing_by_the_clock_runs_at_the_lowest() -> None:
    least = EPM.predict(FrequencyRule.MIN_DISTANCE)
    assert least.freq_ghz.tolist() == [[2, 2], [1, 1]]
    assert least.node_w[MEM] == pytest.approx([90, 90])
    assert least.time_ratio[MEM] == pytest.approx([1, 100 / 120])


def test_weight_on_time_raises_the_frequency_where_that_helps() -> None:
    light = EPM.predict(FrequencyRule.MIN_DISTANCE, Weighing(t_weight=0.5))
    assert light.freq_ghz[CPU].tolist() == [1, 1]
    heavy = EPM.predict(FrequencyRule.MIN_DISTANCE, Weighing(t_weight=1.5))
    assert heavy.freq_ghz[CPU].tolist() == [2, 2]


def test_a_cluster_that_does_not_know_an_application_predicts_nothing_for_it() -> None:
    half = Epm.from_models([models("p1", ("cpu",)), models("p2")])
    nominal = half.predict(FrequencyRule.NOMINAL)
    assert nominal.known.tolist() == [[True, True], [False, True]]
    assert nominal.time_ratio[MEM, 1] == 1
    assert half.best()[MEM] == 1
    with pytest.raises(ValueError, match="no cluster knows an application"):
        Epm.from_models([NodeModels(coefficients("p1"), {})])


def test_lower_p_states_are_offered_as_far_as_a_job_may_take_longer() -> None:
    """At 1 GHz "cpu" takes twice as long and "mem" no longer; both then draw 0.3 of their power."""
    for most, cpu in ((1.5, [np.nan, np.nan]), (2.0, [1.0, np.nan])):
        found = EPM.slower(FrequencyRule.NOMINAL, Weighing(), most)
        assert found.freq_ghz[CPU, 0] == pytest.approx(cpu, nan_ok=True)
        assert found.freq_ghz[MEM, 0] == pytest.approx([1.0, np.nan], nan_ok=True)
        assert found.time_ratio[MEM, 0] == pytest.approx([1.0, np.nan], nan_ok=True)
        assert found.least_power_ratio[MEM] == pytest.approx([0.3, 0.3])
    assert np.isnan(EPM.slower(FrequencyRule.NOMINAL, Weighing(), 1.0).freq_ghz).all()
