"""Runs that do not behave like the application that they are said to be."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from coplace.v1.energy_pb2 import AppIdMismatch, SignatureUpdated
from hypothesis import given, settings
from hypothesis import strategies as st

from coplace_client.signature import Signature
from services.energy.processor.appdb import AppDB
from services.energy.processor.conformity import LEAST_SPREAD, TOLERANCE_SDS, compare_run
from services.energy.processor.profile import SignatureProfile
from services.energy.processor.row import AGREEING_JOBS
from shared.catalogue.event import Event
from tests.unit.services.changelog import fold
from tests.unit.services.energy.support import in_round, measured

OTHER: Any = {"cpi": 4.0, "tpi": 0.05, "mem_gbps": 137.0}


def of_job(number: int, job: str = "", **changes: Any) -> Event:
    return measured(f"{number:03}", number, job_id=job or f"job{number}", **changes)


def known(runs: int = 8) -> AppDB:
    """An application that ran so often, with deviations of 1 % up and down in power."""
    appdb = AppDB({})
    events = [of_job(i, power_w=360.0 * (1.01 if i % 2 else 0.99)) for i in range(runs)]
    in_round(appdb, 0, *events)
    return appdb


def mismatches(events: list[Event]) -> list[AppIdMismatch]:
    return [e.payload for e in events if isinstance(e.payload, AppIdMismatch)]


def rows(events: list[Event]) -> list[SignatureUpdated]:
    return [e.payload for e in events if isinstance(e.payload, SignatureUpdated)]


def test_a_run_of_something_else_leaves_the_row_alone_and_says_what_differs() -> None:
    [event] = in_round(known(), 1, of_job(50, **OTHER, traceparent="00-50"))

    assert (event.key, event.time_us, event.traceparent) == ("lu.C|gold-6254", 30_000_000, "00-50")
    found: Any = event.payload
    assert (found.app_id, found.node_model, found.job_id) == ("lu.C", "gold-6254", "job50")
    assert (found.compared_ghz, found.measured.cpi, found.measured_by) == (3.1, 4.0, "050")
    by_name = {each.metric: each for each in found.metrics}
    assert {name for name, each in by_name.items() if each.differs} == {"cpi", "tpi", "mem_gbps"}
    assert by_name["cpi"].expected == pytest.approx(0.7)
    assert by_name["cpi"].deviation == pytest.approx(4.0 / 0.7 - 1)
    assert 0 < by_name["cpi"].tolerance < 0.3


@pytest.mark.parametrize(
    "run",
    [of_job(50, power_w=365.0), measured("p", 50, **OTHER)],
    ids=["one that conforms", "a profiling run, whatever it shows"],
)
def test_what_is_taken_in(run: Event) -> None:
    events = in_round(known(), 1, run)

    assert mismatches(events) == []
    assert rows(events)[0].at[0].count == 9


def test_what_has_run_once_is_allowed_more_than_what_has_shown_how_little_he_varies() -> None:
    far: Any = {"power_w": 360.0 * 1.2}

    assert mismatches(in_round(known(runs=1), 1, of_job(50, **far))) == []
    assert len(mismatches(in_round(known(runs=30), 1, of_job(50, **far)))) == 1


def test_an_application_that_varies_is_allowed_to() -> None:
    powers = 360.0 * (1 + 0.1 * np.random.default_rng(1).standard_normal(40))
    appdb = AppDB({})
    events = [of_job(i, power_w=power) for i, power in enumerate(powers.tolist())]

    assert len(mismatches(in_round(appdb, 0, *events))) <= 1
    assert mismatches(in_round(appdb, 1, of_job(50, power_w=360.0 * 1.25))) == []


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_noise_of_two_percent_raises_no_alarm(seed: int) -> None:
    noise = 1 + 0.02 * np.random.default_rng(seed).standard_normal((40, 4)).clip(-3, 3)
    base = {"power_w": 360.0, "cpi": 0.7, "tpi": 0.006, "mem_gbps": 60.0}
    appdb = AppDB({})
    for i, factors in enumerate(noise.tolist()):
        run: Any = {m: v * f for (m, v), f in zip(base.items(), factors, strict=True)}
        assert mismatches(in_round(appdb, i, of_job(i, **run))) == []


def test_next_to_no_memory_traffic_may_double() -> None:
    little: Any = {"tpi": 1e-6, "mem_gbps": 0.03}
    appdb = AppDB({})
    in_round(appdb, 0, *(of_job(i, **little) for i in range(20)))

    assert mismatches(in_round(appdb, 1, of_job(50, tpi=3e-6, mem_gbps=0.09))) == []
    assert len(mismatches(in_round(appdb, 2, of_job(51, tpi=6e-4, mem_gbps=20.0)))) == 1


BASE = Signature("a", "m", 3.1, 50.0, 360.0, 0.7, 0.006, 60.0, "per-instruction")


def at(freq_ghz: float, **metrics: float) -> Signature:
    changes: Any = metrics
    return replace(BASE, freq_ghz=freq_ghz, **changes)


@given(st.floats(0, 1), st.sampled_from([1.2, 2.0, 2.6, 3.5]))
def test_at_a_pstate_never_measured_all_between_the_limits_conforms(
    waits: float, freq_ghz: float
) -> None:
    """From all of the time following the clock to all of it waiting for memory."""
    clock = freq_ghz / BASE.freq_ghz
    stretch = waits + (1 - waits) / clock
    run = at(
        freq_ghz,
        power_w=BASE.power_w * clock ** (3 * (1 - waits)),
        cpi=BASE.cpi * stretch * clock,
        mem_gbps=BASE.mem_gbps / stretch,
    )

    assert compare_run(SignatureProfile.from_run(BASE), run).conforms


@pytest.mark.parametrize(
    ("metric", "value"),
    [("cpi", 1.1), ("cpi", 0.1), ("tpi", 0.009), ("mem_gbps", 100.0), ("power_w", 500.0)],
)
def test_at_a_pstate_never_measured_what_no_clock_can_do_differs(metric: str, value: float) -> None:
    verdict = compare_run(SignatureProfile.from_run(BASE), at(1.2, **{metric: value}))

    assert [each.metric for each in verdict.deviations if each.differs] == [metric]


def test_the_tolerance_ends_at_the_least_spread() -> None:
    profile = SignatureProfile.from_run(BASE)
    for _ in range(200):
        profile = profile.taking(BASE)
    [power, *_] = compare_run(profile, BASE).deviations

    assert power.tolerance == pytest.approx(TOLERANCE_SDS * LEAST_SPREAD, rel=0.03)


def test_jobs_in_a_row_that_agree_with_each_other_are_the_new_version() -> None:
    appdb = known()
    last = AGREEING_JOBS - 1
    for i in range(last):
        assert len(mismatches(in_round(appdb, i + 1, of_job(50 + i, **OTHER)))) == 1

    events = in_round(appdb, 9, of_job(50 + last, **OTHER))

    assert mismatches(events) == []
    [row] = rows(events)
    assert [(a.cpi, a.count) for a in row.at] == [(4.0, AGREEING_JOBS)]
    assert len(mismatches(in_round(appdb, 10, of_job(80)))) == 1


def test_jobs_that_agree_with_the_row_in_between_keep_it() -> None:
    appdb = known()
    for i in range(3 * AGREEING_JOBS):
        in_round(appdb, 2 * i + 1, of_job(50 + 2 * i, **OTHER))
        assert rows(in_round(appdb, 2 * i + 2, of_job(51 + 2 * i)))[0].at[0].cpi == 0.7


def test_wrong_jobs_that_disagree_and_one_that_is_measured_often_replace_nothing() -> None:
    for how in ("disagree", "one job"):
        appdb = known()
        for i in range(4 * AGREEING_JOBS):
            wrong = of_job(50 + i, cpi=2.0 + i % 2)
            if how == "one job":
                wrong = of_job(50 + i, job="same", **OTHER)
            assert len(mismatches(in_round(appdb, i + 1, wrong))) == 1


def test_the_mean_of_one_pstate_that_was_wrong_is_replaced_alone() -> None:
    """A run that slipped in where nothing was measured must not cost the rest of the row."""
    appdb = known()
    slow: Any = {"freq_ghz": 1.2, "power_w": 200.0}
    slipped = in_round(appdb, 1, of_job(40, **slow, cpi=0.35))
    assert len(rows(slipped)[0].at) == 2

    for i in range(AGREEING_JOBS):
        in_round(appdb, 2 + 2 * i, of_job(50 + 2 * i, **slow, cpi=0.7))
        events = in_round(appdb, 3 + 2 * i, of_job(51 + 2 * i))

    [row] = rows(events)
    assert [(a.freq_ghz, a.cpi) for a in row.at] == [(1.2, 0.7), (3.1, pytest.approx(0.7))]


@given(st.lists(st.sampled_from([{}, OTHER, {"cpi": 2.0}]), max_size=25), st.integers(0, 25))
def test_a_restart_between_rounds_changes_nothing(kinds: list[Any], restart: int) -> None:
    def played(restart_at: int) -> list[Event]:
        appdb, out = AppDB({}), []
        state: dict[str, bytes] = {}
        for i, kind in enumerate(kinds):
            if i == restart_at:
                appdb = AppDB(state)
            out += in_round(appdb, i, of_job(i, **kind))
            fold(state, appdb.changes())
        return out

    assert played(restart) == played(-1)
