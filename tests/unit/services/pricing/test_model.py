"""Prices by the equations of the POPPA paper."""

from decimal import Decimal
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.models.shutters import Interference
from shared.pricing.model import (
    MOST_ROWS,
    CoRun,
    Evidence,
    Occupied,
    evidence,
    price,
)

RATE = Decimal("0.001")
RUN = Occupied(millicores=96_000, started_at_us=1_000_000, ended_at_us=101_000_000)
times_us = st.integers(0, 200_000_000)


def co_run(name: str, began_s: float, ended_s: float, ratio: float) -> CoRun:
    """An interval in seconds of the run."""
    return CoRun(name, round(began_s * 1e6), round(ended_s * 1e6), Interference(ratio, 1, 0))


@st.composite
def co_runs(draw: st.DrawFn) -> CoRun:
    began, ended = sorted((draw(times_us), draw(times_us)))
    ratio = draw(st.floats(1, 50))
    return CoRun(draw(st.sampled_from("abc")), began, ended, Interference(ratio, 2, 1))


@pytest.mark.parametrize(
    ("beside_s", "slowdown", "solo_time_s", "price_su"),
    [(0, 1.0, 100.0, "9.600000"), (100, 1.25, 80.0, "6.144000"), (50, 2.0, 75.0, "5.400000")],
    ids=["alone", "slowed down all the time", "slowed down half of the time"],
)
def test_a_job_pays_by_equation_4(
    beside_s: int, slowdown: float, solo_time_s: float, price_su: str
) -> None:
    """L x (T_solo / T_co) x C x T_solo: 0.001 x 0.8 x 96 x 80 of the second."""
    found = price(RATE, 96, 100_000_000, [Evidence("b", beside_s * 1_000_000, slowdown)])
    assert found.solo_time_s == solo_time_s
    assert found.slowdown_ratio == pytest.approx(100 / solo_time_s)
    assert found.price_su == Decimal(price_su)
    assert found.state_of_practice_su == Decimal("9.600000")


def test_a_job_that_never_started_costs_nothing() -> None:
    cancelled = Occupied(millicores=96_000, started_at_us=0, ended_at_us=50)
    assert cancelled.runtime_us == 0
    assert price(RATE, cancelled.cores, 0, ()).price_su == 0


def test_an_interval_is_cut_to_the_run() -> None:
    assert evidence([co_run("b", 200, 300, 2.0)], RUN) == ()
    (row,) = evidence([co_run("b", 0, 51, 2.0)], RUN)
    assert (row.duration_us, row.slowdown_ratio) == (50_000_000, 2.0)


def test_beside_several_co_runners_at_once_each_moment_counts_once_by_the_strongest() -> None:
    """Two on one node, a third on another: the job advances at the pace of its slowest node."""
    together = [co_run("b", 1, 101, 1.6), co_run("c", 1, 61, 1.6), co_run("d", 21, 41, 2.0)]
    rows = evidence(together, RUN)
    assert [(row.co_runner_job_id, row.duration_us) for row in rows] == [
        ("c", 40_000_000),
        ("d", 20_000_000),
        ("b", 40_000_000),
    ]
    found = price(RATE, RUN.cores, RUN.runtime_us, rows)
    assert found.solo_time_s == pytest.approx(80 / 1.6 + 20 / 2.0)


def test_intervals_beside_one_co_runner_become_one_row_with_the_same_solo_time() -> None:
    (row,) = evidence([co_run("b", 1, 31, 1.5), co_run("b", 31, 91, 3.0)], RUN)
    assert row.duration_us == 90_000_000
    assert float(row.solo_us) == pytest.approx(30e6 / 1.5 + 60e6 / 3.0)
    assert row.shutters_used == 2


@given(st.lists(co_runs(), max_size=12), st.randoms())
def test_evidence_in_any_order_never_exceeds_the_run_and_never_speeds_a_job_up(
    runs: list[CoRun], random: Random
) -> None:
    rows = evidence(runs, RUN)
    assert sum(row.duration_us for row in rows) <= RUN.runtime_us
    found = price(RATE, RUN.cores, RUN.runtime_us, rows)
    assert found.slowdown_ratio >= 1
    assert 0 < found.price_su <= found.state_of_practice_su
    random.shuffle(runs)
    again = price(RATE, RUN.cores, RUN.runtime_us, evidence(runs, RUN))
    assert again.slowdown_ratio == pytest.approx(found.slowdown_ratio)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("cores", (0, 1, 2)),
        ("ended_at_us", (96_000, 3, 2)),
        ("ended_at_us", (96_000, -5, -2)),
        ("cores", (2**31 * 1000, 1, 2)),
        ("ended_at_us", (2**29 * 1000, 1, 10**15)),
    ],
)
def test_usage_that_cannot_be_is_refused(field: str, values: tuple[int, int, int]) -> None:
    with pytest.raises(RejectedError) as error:
        Occupied(*values)
    assert error.value.field == field


def many_co_runs(count: int) -> list[CoRun]:
    """One after the other, each with another slowdown."""
    names = (f"{number:05d}".ljust(256, '"') for number in range(count))
    return [
        CoRun(name, 1_000_000 * (n + 1), 1_000_000 * (n + 2), Interference(1 + n / 977, 1, 1))
        for n, name in enumerate(names)
    ]


def test_of_very_many_co_runners_those_that_cost_least_are_one_row() -> None:
    usage = Occupied(4_000, 1_000_000, 1_101_000_000)
    rows = evidence(many_co_runs(1_100), usage)
    assert len(rows) == MOST_ROWS
    assert (rows[-1].co_runner_job_id, rows[-1].co_runners) == ("", 1_100 - MOST_ROWS + 1)
    assert {row.co_runners for row in rows[:-1]} == {1}
    assert sum(row.duration_us for row in rows) == 1_100_000_000
    assert sum(row.shutters_used for row in rows) == 1_100
    assert min(row.slowdown_ratio for row in rows[:-1]) > rows[-1].slowdown_ratio


def test_the_row_of_many_co_runners_costs_what_theirs_would() -> None:
    co_runs, usage = many_co_runs(1_100), Occupied(4_000, 1_000_000, 1_101_000_000)
    apart = [
        Evidence(r.co_runner_job_id, 1_000_000, r.interference.slowdown_ratio) for r in co_runs
    ]
    together, each = (
        price(Decimal("0.0001"), 4, usage.runtime_us, rows)
        for rows in (evidence(co_runs, usage), apart)
    )
    assert abs(together.price_su - each.price_su) <= Decimal("0.000001")
    assert together.state_of_practice_su == each.state_of_practice_su


def test_as_many_co_runners_as_there_are_rows_keep_their_names() -> None:
    rows = evidence(many_co_runs(MOST_ROWS), Occupied(4_000, 1_000_000, 1_101_000_000))
    assert len({row.co_runner_job_id for row in rows}) == MOST_ROWS
