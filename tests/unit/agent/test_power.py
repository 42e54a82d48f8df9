"""What a node draws, as meters and counters of energy show it in trees of sysfs."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coplace_agent.adapters.power import NoMeterError, node_meter
from coplace_agent.node_power import PowerSampler
from tests.support.sysfs import RANGE_UJ, counters, supply

_ZONES = {
    "intel-rapl:0": "package-0",
    "intel-rapl:0:0": "core",
    "intel-rapl:0:1": "dram",
    "intel-rapl:1": "package-1",
}


def test_packages_and_memory_count_and_cores_within_packages_do_not(tmp_path: Path) -> None:
    files = counters(tmp_path, _ZONES)
    meter = node_meter(tmp_path, 0.0, 0.0)
    for file in files.values():
        file.write_text("5000000\n")
    assert meter.energy_j(1.0) == 15.0


def test_where_the_platform_is_counted_nothing_else_is(tmp_path: Path) -> None:
    files = counters(tmp_path, {**_ZONES, "intel-rapl:2": "psys"})
    meter = node_meter(tmp_path, 0.0, 0.0)
    for file in files.values():
        file.write_text("5000000\n")
    assert meter.energy_j(1.0) == 5.0


def test_the_rest_of_the_node_draws_by_time(tmp_path: Path) -> None:
    counters(tmp_path, {"intel-rapl:0": "package-0"})
    assert node_meter(tmp_path, 40.0, 10.0).energy_j(12.5) == 100.0


@given(drawn_uj=st.lists(st.integers(0, RANGE_UJ - 1), max_size=20))
def test_a_counter_that_begins_anew_at_its_range_loses_nothing(
    drawn_uj: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    sys = tmp_path_factory.mktemp("sys")
    file = counters(sys, {"intel-rapl:0": "package-0"})["package-0"]
    meter = node_meter(sys, 0.0, 0.0)
    found_j = 0.0
    for index, _ in enumerate(drawn_uj):
        file.write_text(str(sum(drawn_uj[: index + 1]) % RANGE_UJ))
        found_j = meter.energy_j(float(index))
    assert found_j == pytest.approx(sum(drawn_uj) / 1e6)


def test_the_power_supplys_meter_goes_before_counters_of_a_part(tmp_path: Path) -> None:
    counters(tmp_path, _ZONES)
    reading = supply(tmp_path, 300.0)
    meter = node_meter(tmp_path, 40.0, 0.0)
    assert meter.energy_j(2.0) == 600.0
    reading.write_text("100000000\n")
    assert meter.energy_j(3.0) == 700.0


def test_no_meter_or_one_that_may_not_be_read_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NoMeterError, match="neither an ACPI power meter nor counters of energy"):
        node_meter(tmp_path, 0.0, 0.0)
    counters(tmp_path, {"intel-rapl:0": "package-0"})["package-0"].write_text("soon\n")
    with pytest.raises(NoMeterError, match="soon"):
        node_meter(tmp_path, 0.0, 0.0)


@given(
    steps=st.lists(st.tuples(st.floats(0.01, 30), st.floats(0, 1e5)), min_size=1, max_size=60),
    sample_s=st.floats(0.5, 20),
    batch_s=st.floats(0.5, 60),
)
def test_samples_hold_all_energy_up_to_the_last_one_in_the_order_of_time(
    steps: list[tuple[float, float]], sample_s: float, batch_s: float
) -> None:
    power = PowerSampler(sample_s, batch_s)
    now_s = energy_j = 0.0
    at = {0: energy_j}
    power.read(energy_j, now_s, 0)
    told = []
    for step_s, power_w in steps:
        now_s += step_s
        energy_j += step_s * power_w
        at[round(now_s * 1e6)] = energy_j
        batch = power.read(energy_j, now_s, round(now_s * 1e6))
        told += batch
    told += power.rest()
    times_us = [0, *(sample.time_us for sample in told)]
    assert times_us == sorted(set(times_us))
    for begin_us, sample in zip(times_us, told, strict=False):
        length_s = (sample.time_us - begin_us) / 1e6
        assert length_s >= sample_s - 1e-5
        drawn_j = at[sample.time_us] - at[begin_us]
        assert sample.power_w * length_s == pytest.approx(drawn_j, rel=1e-3, abs=1)


def test_no_sample_goes_over_a_time_in_which_the_meter_did_not_answer() -> None:
    power = PowerSampler(10.0, 1.0)
    power.read(0.0, 0.0, 0)
    power.lost()
    assert power.read(5_000.0, 100.0, 100_000_000) == []
    assert [each.power_w for each in power.read(7_000.0, 110.0, 110_000_000)] == [200.0]
