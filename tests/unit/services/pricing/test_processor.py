"""Pricing folds facts and shutters by job, and charges when they are in."""

from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from coplace.v1.jobs_pb2 import (
    JobRequeued,
    JobSeized,
    RunInterval,
)
from coplace.v1.prediction_pb2 import DegradationModelPublished
from coplace.v1.pricing_pb2 import ChargeMade
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from services.pricing.processor import SOURCE, PriceRule
from services.pricing.restoring import recall_outputs, repair_state
from shared.catalogue.event import Event
from shared.streams.stages.stage import AlreadyAppliedError, EarlyError, Round
from tests.support.messaging import START_US
from tests.unit.services.changelog import fold
from tests.unit.services.pricing.support import (
    HOUR_US,
    JOB,
    TRACE,
    Driver,
    finished,
    shutters,
    started,
    submitted,
)

CLOCK = PriceRule(Decimal("0.0001"), grace_us=60_000_000, remember_us=10 * HOUR_US)


@pytest.mark.parametrize(("cores", "price_su"), [(0, "34.560000"), (90, "32.400000")])
def test_a_finished_job_is_charged_for_its_cores_in_the_round_that_brings_its_finish(
    cores: int, price_su: str
) -> None:
    driver = Driver()
    driver.take(submitted(account=""))
    assert driver.end_round(0, START_US) == []
    driver.take(finished(cores=cores))
    (charge,) = driver.end_round(1, START_US + HOUR_US)
    assert charge.price_su == charge.state_of_practice_su == price_su
    assert (charge.revision, charge.charged_at_us) == (1, START_US + HOUR_US)
    assert driver.end_round(2, START_US + 2 * HOUR_US) == []


def test_a_charge_belongs_to_the_trace_of_its_job_and_has_a_natural_key() -> None:
    driver = Driver()
    driver.take(submitted(), finished())
    (publish,) = driver.processor.end_round(Round(0, START_US + HOUR_US))
    assert publish.topic == "prices.charges"
    assert publish.event.id == "pricing/coplace.v1.ChargeMade/s/c/1/0/1/1"
    assert (publish.event.key, publish.event.traceparent) == (JOB, TRACE)


def test_a_clock_waits_for_the_grace_before_it_charges() -> None:
    driver = Driver(CLOCK)
    driver.take(submitted(), finished())
    assert driver.end_round(0, START_US + HOUR_US) == []
    driver.crash()
    assert driver.end_round(1, START_US + HOUR_US + 59_000_000) == []
    driver.take(shutters())
    (charge,) = driver.end_round(2, START_US + HOUR_US + 60_000_000)
    assert (charge.revision, charge.slowdown_ratio) == (1, 1.25)


@pytest.mark.parametrize("early", [finished(), JobRequeued(job_id=JOB, cluster="c", attempt=2)])
def test_what_comes_before_the_submission_is_early(early: Message) -> None:
    driver = Driver()
    with pytest.raises(EarlyError, match="never submitted"):
        driver.take(early)
    assert driver.end_round(0, START_US + HOUR_US) == []
    assert driver.state == {}


@pytest.mark.parametrize("fact", [submitted(), finished(), shutters()])
def test_a_copy_changes_nothing(fact: Message) -> None:
    driver = Driver()
    driver.take(submitted(), shutters(), finished())
    driver.end_round(0, START_US + HOUR_US)
    with pytest.raises(AlreadyAppliedError):
        driver.take(fact)
    assert driver.end_round(1, START_US + 2 * HOUR_US) == []


def test_an_attempt_that_was_requeued_without_an_end_is_forgotten() -> None:
    driver = Driver()
    driver.take(submitted(), started(), JobRequeued(job_id=JOB, cluster="c", attempt=2))
    driver.end_round(0, START_US)
    driver.take(finished(attempt=2))
    assert len(driver.end_round(1, START_US + HOUR_US)) == 1
    driver.end_round(2, START_US + 11 * HOUR_US)
    assert [*driver.state] == ["account|physics"]


def test_a_late_finish_of_an_attempt_that_was_seized_is_charged_as_that_attempt() -> None:
    driver = Driver()
    driver.take(submitted(), JobSeized(job_id=JOB, attempt=1), finished(attempt=2))
    (second,) = driver.end_round(0, START_US + HOUR_US)
    driver.take(finished())
    (first,) = driver.end_round(1, START_US + 2 * HOUR_US)
    assert (first.attempt, second.attempt) == (1, 2)


def test_a_copy_of_the_end_of_an_early_attempt_is_known_while_a_later_one_runs() -> None:
    driver = Driver()
    driver.take(submitted(), finished(), JobRequeued(job_id=JOB, cluster="c", attempt=2))
    driver.end_round(0, START_US + HOUR_US)
    driver.end_round(1, START_US + 100 * HOUR_US)
    driver.crash()
    with pytest.raises(AlreadyAppliedError):
        driver.take(finished())


def test_all_state_of_a_job_is_dropped_some_time_after_its_charge_or_when_nobody_submits_it() -> (
    None
):
    charged, strange = Driver(), Driver()
    charged.take(submitted(), finished())
    for driver in (charged, strange):
        driver.processor.handle(driver.event(shutters()))
        driver.end_round(0, START_US)
        assert driver.state
        driver.restart()
        driver.end_round(1, START_US + 11 * HOUR_US)
    assert ([*charged.state], [*strange.state]) == (["account|physics"], [])


def test_charges_of_a_round_are_in_the_order_of_job_ids() -> None:
    driver = Driver()
    for job in ("s/c/9/0", "s/c/2/0", "s/c/5/0"):
        driver.take(submitted(job_id=job), finished(job_id=job))
    charges = driver.end_round(0, START_US + HOUR_US)
    assert [charge.job_id for charge in charges] == ["s/c/2/0", "s/c/5/0", "s/c/9/0"]


@pytest.mark.parametrize(
    ("field", "broken"),
    [
        ("account", {"account": ""}),
        ("user", {"user": "ada\n"}),
        ("cores", {"nodes": 0}),
        ("cores", {"nodes": 2**32 - 1, "cores_per_node": 2**32 - 1}),
        ("ended_at_us", {"ended_at_us": -1}),
        ("ended_at_us", {"ended_at_us": START_US - 1}),
        ("job_id", {"job_id": ""}),
        ("attempt", {"attempt": 0}),
    ],
)
def test_a_finish_that_cannot_be_priced_names_the_field(field: str, broken: dict[str, Any]) -> None:
    driver = Driver()
    driver.take(submitted())
    with pytest.raises(RejectedError) as error:
        driver.take(finished(**broken))
    assert error.value.field == field
    driver.take(finished())
    assert len(driver.end_round(0, START_US + HOUR_US)) == 1


def test_what_does_not_belong_here_is_refused() -> None:
    with pytest.raises(RejectedError, match="ce_type"):
        Driver().take(DegradationModelPublished())


FACTS = [
    submitted(),
    started(),
    shutters(),
    shutters(2.0, "c", ended_at_us=START_US + HOUR_US // 2),
    finished(),
    JobRequeued(job_id=JOB, cluster="c", attempt=2),
]


@given(st.lists(st.sampled_from(FACTS), max_size=14), st.integers(0, 14))
def test_a_crash_between_any_two_facts_leaves_the_charges_as_they_are(
    log: list[Message], crash_at: int
) -> None:
    assert _charges(log, crash_at) == _charges(log, None)


def _charges(log: Iterable[Message], crash_at: int | None) -> list[bytes]:
    driver = Driver()
    for index, fact in enumerate(log):
        if index == crash_at:
            driver.crash()
        with suppress(RejectedError, AlreadyAppliedError):
            driver.take(fact)
            if index % 3 == 0:
                driver.end_round(index, START_US + index * HOUR_US)
    driver.end_round(99, START_US + 99 * HOUR_US)
    return [charge.SerializeToString(deterministic=True) for charge in driver.charges]


def test_what_a_wrong_clock_put_off_is_due_after_it_is_repaired() -> None:
    wrong_us = START_US + 10 * 365 * 24 * HOUR_US
    driver = Driver(CLOCK)
    driver.take(submitted(), finished())
    assert driver.end_round(0, wrong_us) == []
    fold(driver.state, repair_state(driver.state, CLOCK, START_US))
    assert repair_state(driver.state, CLOCK, START_US) == {}
    driver.restart()
    assert driver.end_round(1, START_US + CLOCK.grace_us - 1) == []
    assert len(driver.end_round(2, START_US + CLOCK.grace_us)) == 1


def test_what_is_charged_again_from_a_lost_state_follows_on_the_revisions_in_the_charges() -> None:
    first, again, facts = Driver(), Driver(), (submitted(), finished(), shutters())
    for number, fact in enumerate(facts):
        first.take(fact)
        first.end_round(number, START_US)
    assert [charge.revision for charge in first.charges] == [1, 2]
    events = [Event(f"c{c.revision}", SOURCE, START_US, JOB, c) for c in first.charges]
    forged = ChargeMade(job_id=JOB, attempt=1, revision=2**31)
    fold(again.state, recall_outputs({}, [*events, Event("x", "somebody", START_US, JOB, forged)]))
    again.restart()
    again.take(*facts)
    [charge] = again.end_round(9, START_US)
    assert (charge.revision, charge.price_su) == (3, first.charges[-1].price_su)
    assert recall_outputs(again.state, events) == {}


def test_an_end_that_says_for_how_long_it_was_suspended_counts_before_one_that_does_not() -> None:
    driver = Driver()
    driver.take(submitted(), finished())
    driver.end_round(0, START_US + HOUR_US)
    intervals = [
        RunInterval(began_at_us=START_US),
        RunInterval(began_at_us=START_US + HOUR_US // 2, is_clock_unknown=True),
    ]
    driver.take(finished(intervals=intervals))
    (charge,) = driver.end_round(1, START_US + 2 * HOUR_US)
    assert (charge.revision, charge.runtime_s) == (2, 1800.0)
    for later in (finished(), finished(intervals=intervals)):
        with pytest.raises(AlreadyAppliedError):
            driver.take(later)


@pytest.mark.parametrize(
    "changes", [{"ended_at_us": START_US + HOUR_US + 1}, {"started_at_us": START_US + 1}]
)
def test_an_end_of_another_time_corrects_nothing(changes: dict[str, int]) -> None:
    driver = Driver()
    driver.take(submitted(), finished())
    driver.end_round(0, START_US + HOUR_US)
    began_us = changes.get("started_at_us", START_US)
    paused = finished(intervals=[RunInterval(began_at_us=began_us)], **changes)
    with pytest.raises(AlreadyAppliedError):
        driver.take(paused)
