from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from services.energy.processor.appdb import AppDB, row_of
from shared.catalogue.event import Event
from shared.streams.stages.stage import AlreadyAppliedError
from tests.unit.services.changelog import interrupted, state_of
from tests.unit.services.energy.support import in_round, measured


def only(events: list[Event]) -> Any:
    [event] = events
    return event.payload


def test_a_row_is_published_at_the_end_of_the_round_that_changed_it() -> None:
    appdb = AppDB({})

    [event] = in_round(appdb, 3, measured("a", traceparent="00-1"))

    assert event.key == "lu.C|gold-6254"
    assert event.time_us == 90_000_000
    assert event.traceparent == "00-1"
    row: Any = event.payload
    assert row.updated_by == "a"
    assert [(at.freq_ghz, at.power_w, at.count) for at in row.at] == [(3.1, 360.0, 1)]
    assert in_round(appdb, 4) == []


def test_the_first_runs_are_averaged_and_later_ones_displace_old_ones() -> None:
    appdb = AppDB({})
    runs = [measured(f"{i:03}", i, power_w=300.0) for i in range(20)]
    few = only(in_round(appdb, 0, measured("x", power_w=300.0), measured("y", power_w=400.0)))
    many = only(in_round(AppDB({}), 0, *runs, measured("z", 99, power_w=400.0)))

    assert few.at[0].power_w == pytest.approx(350.0)
    assert many.at[0].power_w == pytest.approx(310.0)
    assert many.at[0].count == 21


def test_each_pstate_has_its_own_mean_in_ascending_order() -> None:
    row = only(in_round(AppDB({}), 0, measured("a"), measured("b", freq_ghz=1.2, power_w=200.0)))

    assert [(at.freq_ghz, at.power_w) for at in row.at] == [(1.2, 200.0), (3.1, 360.0)]


def test_kernels_are_no_applications() -> None:
    assert in_round(AppDB({}), 0, measured("a", kernel=True)) == []


def test_a_copy_is_recognised_in_its_round_and_after_it() -> None:
    appdb = AppDB({})
    appdb.handle(measured("a"))

    with pytest.raises(AlreadyAppliedError):
        appdb.handle(measured("a"))
    in_round(appdb, 0)
    with pytest.raises(AlreadyAppliedError):
        appdb.handle(measured("a"))


def test_a_measurement_in_another_unit_of_tpi_starts_the_row_anew() -> None:
    appdb = AppDB({})
    in_round(appdb, 0, measured("a"), measured("b", freq_ghz=1.2))

    row = only(in_round(appdb, 1, measured("c", tpi=20.0, tpi_scale="eamc-2020")))

    assert row.tpi_scale == "eamc-2020"
    assert [(at.freq_ghz, at.tpi, at.count) for at in row.at] == [(3.1, 20.0, 1)]


def test_an_impossible_measurement_is_refused_and_leaves_no_trace() -> None:
    appdb = AppDB({})

    with pytest.raises(RejectedError, match="cpi"):
        appdb.handle(measured("a", cpi=0.0))

    assert appdb.changes() == {}


RUNS = [measured(f"{i}", i % 3, power_w=300.0 + 7 * i, traceparent=f"t{i}") for i in range(8)]


@settings(max_examples=50)
@given(st.permutations(RUNS), st.integers(0, 8))
def test_neither_order_nor_a_restart_within_the_round_changes_a_row(
    order: list[Event], restart: int
) -> None:
    assert in_round(interrupted(AppDB, order, restart), 0) == in_round(AppDB({}), 0, *RUNS)


def test_all_that_is_kept_says_which_row_it_belongs_to() -> None:
    appdb = AppDB({})
    in_round(appdb, 0, measured("a", 1))
    in_round(appdb, 1, measured("d", 2, job_id="j", cpi=9.0))
    appdb.handle(measured("c", 3))
    kept = state_of(appdb)
    assert {key.partition("|")[0] for key in kept} == {"row", "rival", "waiting"}
    assert {row_of(key, value) for key, value in kept.items()} == {"lu.C|gold-6254"}
