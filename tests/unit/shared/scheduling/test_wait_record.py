"""What came of look-ahead's order beside what was forecast."""

from dataclasses import replace

import pytest

from shared.scheduling.lookahead import Bounds, LookAhead, Waiting
from shared.scheduling.plan_evaluation import Running, Situation
from shared.scheduling.wait_record import JUDGED, SAMPLED, WaitRecord
from shared.streams.state.rows import rows_of
from tests.unit.shared.scheduling.test_lookahead import FLAT, HOUR_S, ROOMS, Drawn, waiting

BUSY = {
    -1 - number: Running(number, 8, 0.0, release_s=2 * HOUR_S, expected_s=2 * HOUR_S)
    for number in range(2)
}


def one(number: int) -> dict[int, Waiting]:
    """A job that comes at 0 and is forecast to wait for two hours."""
    [job] = waiting([Drawn(0.0, 8, HOUR_S, 1.0)])
    usual = tuple(planned._replace(arrival=number) for planned in job.usual)
    return {number: replace(job, arrival=number, usual=usual)}


def judge(record: WaitRecord, jobs: int, waited_h: float) -> WaitRecord:
    """One job after the other comes and starts when it has waited so long."""
    for number in range(record.newest + 1, record.newest + 1 + SAMPLED * jobs):
        record.follow(Situation(0.0, ROOMS, BUSY), one(number), 1.0)
        record.follow(Situation(waited_h * HOUR_S, ROOMS, BUSY), one(number), 1.0)
        record.follow(Situation(waited_h * HOUR_S, ROOMS, BUSY), {}, 1.0)
    return record


def test_it_steps_back_where_jobs_waited_longer_than_forecast_and_then_tries_again() -> None:
    record = judge(WaitRecord(), JUDGED - 1, waited_h=2.5)
    assert not record.rests
    judge(record, 1, waited_h=2.5)
    assert record.rests
    assert record.text.startswith("stepped back for 100 judged jobs")
    judge(record, JUDGED, waited_h=2.0)
    assert not record.rests
    assert record.judged == 0


def test_what_jobs_wait_longer_by_eamcs_order_too_is_expected_from_then_on() -> None:
    record = judge(WaitRecord(), 2 * JUDGED, waited_h=2.5)
    assert not record.rests
    judge(record, 2 * JUDGED, waited_h=2.5)
    assert not record.rests
    judge(record, JUDGED, waited_h=3.0)
    assert record.rests


def test_it_goes_on_where_they_waited_less() -> None:
    record = judge(WaitRecord(), 2 * JUDGED, waited_h=1.0)
    assert not record.rests
    over = f"over the last {JUDGED} judged"
    assert record.text == f"jobs waited -1.00 h longer than expected, {over}"
    assert record.budget_s == pytest.approx(4 * 2 * HOUR_S)


def test_while_it_rests_look_ahead_decides_and_plans_as_eamc_does() -> None:
    jobs = {
        job.arrival: job
        for job in waiting([Drawn(0.0, 8, 36_000.0, 1.0)] * 3 + [Drawn(0.0, 1, 600.0, 1.0)] * 4)
    }
    at = Situation(0.0, ROOMS, {})
    assert LookAhead(FLAT, Bounds()).plan(at, jobs, 1.0) is not None
    resting = LookAhead(FLAT, Bounds(), record=WaitRecord(resting=3))
    assert resting.plan(at, jobs, 1.0) is None
    usual = [planned for job in jobs.values() for planned in job.usual]
    assert resting.decide(at, jobs, 1.0) == at.starts_now(usual)


def test_a_record_that_is_kept_and_read_again_goes_on_as_before() -> None:
    record, codec = judge(WaitRecord(), 7, waited_h=2.5), rows_of(WaitRecord)
    record.follow(Situation(0.0, ROOMS, BUSY), one(400), 1.0)
    restored = codec.decode(codec.encode(record))
    assert restored == record
    assert judge(restored, JUDGED, 2.5) == judge(record, JUDGED, 2.5)


def test_what_may_be_chance_is_no_reason_to_step_back() -> None:
    """58 jobs waited an hour longer and 42 an hour less: 1.6 standard errors."""
    record = judge(WaitRecord(), 42, waited_h=1.0)
    judge(record, 58, waited_h=3.0)
    assert record.judged == JUDGED
    assert not record.rests
    certain = judge(judge(WaitRecord(), 38, waited_h=1.0), 62, waited_h=3.0)
    assert certain.rests
    assert (certain.rest_forecast_s, certain.rest_waited_s) == (0.0, 0.0)


def test_the_longest_forecast_fades_where_later_ones_are_shorter() -> None:
    record = WaitRecord(longest_s=10 * HOUR_S)
    judge(record, 1, waited_h=2.0)
    assert record.longest_s == pytest.approx(9.9 * HOUR_S)
    judge(record, 3 * JUDGED, waited_h=2.0)
    assert record.longest_s == 2 * HOUR_S
