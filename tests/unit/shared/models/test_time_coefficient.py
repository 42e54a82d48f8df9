"""The time coefficient, on the paper's Table 1 and on applications that obey a law."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.workloads.clusters import PEAK_BANDWIDTH_GBPS
from lab.workloads.table1 import APPS, GOLD_6254, PLATINUM_8168, PublishedNodeModel
from shared.models.projection import Projection
from shared.models.time_coefficient import (
    AppTime,
    Hardware,
    TimeCoefficients,
    clock_shares,
)

PLATINUM, GOLD = (
    Hardware(m.cores, m.nominal_ghz, PEAK_BANDWIDTH_GBPS[m.name])
    for m in (PLATINUM_8168, GOLD_6254)
)
PLAIN = PLATINUM.rate / GOLD.rate


def table1(model: PublishedNodeModel) -> dict[str, AppTime]:
    found = {}
    for app_id, app in APPS.items():
        seen = app.on[model.name]
        steps = round((model.nominal_ghz - model.lowest_ghz) * 10)
        stretch = seen.slope_s_per_100mhz * steps / seen.time_s
        share = stretch / (model.nominal_ghz / model.lowest_ghz - 1)
        found[app_id] = AppTime(seen.time_s, min(1.0, share))
    return found


def test_an_application_that_ran_on_both_has_the_ratio_of_its_times() -> None:
    found = TimeCoefficients(PLATINUM, GOLD, table1(PLATINUM_8168), table1(GOLD_6254)).of("STREAM")
    assert found.is_measured
    assert found.value == pytest.approx(81.43 / 107.55)


def test_more_runs_make_a_measured_coefficient_surer_up_to_what_a_mean_remembers() -> None:
    def error(runs: int) -> float:
        here = {"a": AppTime(1.0, runs=runs)}
        return TimeCoefficients(PLATINUM, GOLD, here, here).of("a").relative_error

    assert error(1) > error(10) > error(19) == error(1000)


def test_nothing_known_leaves_cores_times_ghz_and_no_idea_how_sure() -> None:
    found = TimeCoefficients(PLATINUM, GOLD, {}, {}).of("new")
    assert found.value == pytest.approx(PLAIN)
    assert found.relative_error == math.inf
    assert not found.is_measured


@given(st.floats(0.5, 2.0), st.integers(2, 9))
def test_what_all_applications_gain_or_lose_alike_corrects_the_estimate(
    factor: float, apps: int
) -> None:
    here = {f"app{i}": AppTime(10.0 + i) for i in range(apps)}
    there = {name: AppTime(t.time_s * PLAIN * factor) for name, t in here.items()}
    here["new"] = AppTime(7.0)
    found = TimeCoefficients(PLATINUM, GOLD, here, there).of("new")
    assert found.value == pytest.approx(PLAIN * factor)
    assert found.relative_error == pytest.approx(0.0, abs=1e-9)


def test_one_odd_application_does_not_move_the_others_and_many_runs_outweigh_one() -> None:
    here = {f"app{i}": AppTime(10.0) for i in range(5)}
    there = {name: AppTime(10.0 * PLAIN) for name in here} | {"app4": AppTime(90.0)}
    here["new"] = AppTime(10.0)
    assert TimeCoefficients(PLATINUM, GOLD, here, there).of("new").value == pytest.approx(PLAIN)
    here |= {"a": AppTime(10.0, runs=100)}
    there |= {"a": AppTime(12.0, runs=100)}
    assert TimeCoefficients(PLATINUM, GOLD, here, there).of("new").value == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("hardware", "expected"),
    [
        ((PLATINUM, GOLD), 256.0 / 281.6),
        ((Hardware(48, 2.7), Hardware(36, 3.1)), PLAIN),
    ],
    ids=["by bandwidth", "bandwidths are unknown"],
)
def test_an_application_that_waits_for_memory_is_scaled_by_bandwidth(
    hardware: tuple[Hardware, Hardware], expected: float
) -> None:
    found = TimeCoefficients(*hardware, {"stream": AppTime(100.0, clock_share=0.0)}, {})
    assert found.of("stream").value == pytest.approx(expected)


@given(st.sampled_from(sorted(APPS)))
def test_the_way_back_is_the_inverse(app_id: str) -> None:
    here, there = table1(PLATINUM_8168), table1(GOLD_6254)
    forth = TimeCoefficients(PLATINUM, GOLD, here, there).of(app_id).value
    back = TimeCoefficients(GOLD, PLATINUM, there, here).of(app_id).value
    assert forth * back == pytest.approx(1.0)


def test_left_out_applications_of_table_1_are_estimated_better_than_by_the_plain_ratio() -> None:
    """The yardstick is cores x GHz alone, on the same eight applications."""
    here, there = table1(PLATINUM_8168), table1(GOLD_6254)
    plain = [math.log(there[a].time_s / here[a].time_s / PLAIN) for a in APPS]

    found = TimeCoefficients(PLATINUM, GOLD, here, there)
    errors = list(found.left_out().values())
    assert math.hypot(*errors) < 0.7 * math.hypot(*plain)
    del here["STREAM"]
    estimate = TimeCoefficients(PLATINUM, GOLD, here, there).of("STREAM")
    assert abs(math.log(estimate.value / 0.757)) < 0.5 * abs(math.log(PLAIN / 0.757))


def test_the_clock_share_is_read_from_the_lowest_pstate_that_has_a_projection() -> None:
    nan = math.nan
    time_s = np.array([[20.0, 12.0, 10.0], [10.0, 10.0, 10.0], [nan, 15.0, 10.0], [nan, nan, 1.0]])
    projection = Projection((1.0, 1.5, 2.0), time_s, time_s, np.zeros(time_s.shape, np.uint8))
    assert clock_shares(projection).tolist() == pytest.approx([1.0, 0.0, 1.0, 1.0])
