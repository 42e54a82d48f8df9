"""Pricing folds facts and shutters by job, and charges when they are in."""

from collections.abc import Iterable, Mapping
from decimal import Decimal

import pytest
from coplace.v1.jobs_pb2 import (
    JobCancelled,
    JobDeclined,
    JobFinished,
    JobHeld,
    JobReleased,
    JobRequeued,
    JobSeized,
    JobStarted,
    JobSubmitted,
)
from coplace.v1.prediction_pb2 import DegradationModelPublished
from coplace.v1.pricing_pb2 import ChargeMade
from coplace.v1.telemetry_pb2 import Shutter, ShuttersMeasured
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from services.pricing.charge import audit
from services.pricing.processor import SOURCE, PriceRule, PricingProcessor
from services.pricing.restoring import mended, recalled
from shared.catalogue.event import Event
from shared.catalogue.schemas import MESSAGES
from shared.catalogue.topics import Topics
from shared.streams.stages.stage import AlreadyAppliedError, EarlyError, Round

START_US = 1_767_225_600_000_000
HOUR_US = 3_600_000_000
BARRIERS = PriceRule(Decimal("0.0001"), grace_us=0, remember_us=10 * HOUR_US)
CLOCK = PriceRule(Decimal("0.0001"), grace_us=60_000_000, remember_us=10 * HOUR_US)
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Driver:
    """Feeds a processor as a unit does, and keeps what a changelog would."""

    def __init__(self, tariff: PriceRule = BARRIERS) -> None:
        self.tariff = tariff
        self.state: dict[str, bytes] = {}
        self.processor = PricingProcessor(tariff, {})

    def take(self, payload: Message, event_id: str = "") -> None:
        """Hand one fact over."""
        event = Event(event_id or str(payload), "test", START_US, "s/c/1/0", payload, TRACE)
        assert list(self.processor.handle(event)) == []

    def end_round(self, number: int, at_us: int) -> list[ChargeMade]:
        """What is charged when a round ends."""
        charges = []
        for publish in self.processor.end_round(Round(number, at_us)):
            assert isinstance(publish.event.payload, ChargeMade)
            audit(publish.event.payload)
            charges.append(publish.event.payload)
        self.save(self.processor.changes())
        return charges

    def save(self, changes: Mapping[str, bytes | None]) -> None:
        """Apply changes as the compacted changelog does."""
        for key, value in changes.items():
            if value is None:
                self.state.pop(key, None)
            else:
                self.state[key] = value

    def crash(self) -> None:
        """Begin again from what was committed."""
        self.save(self.processor.changes())
        self.processor = PricingProcessor(self.tariff, dict(self.state))


def submitted(attempt: int = 1, job: str = "s/c/1/0") -> JobSubmitted:
    return JobSubmitted(job_id=job, attempt=attempt, user="ada", nodes=4)


def started(attempt: int = 1) -> JobStarted:
    return JobStarted(job_id="s/c/1/0", attempt=attempt, cluster="c", started_at_us=START_US)


def finished(attempt: int = 1, job: str = "s/c/1/0", runtime_us: int = HOUR_US) -> JobFinished:
    return JobFinished(
        job_id=job,
        attempt=attempt,
        user="ada",
        account="physics",
        cluster="c",
        nodes=4,
        cores_per_node=24,
        submitted_at_us=START_US,
        started_at_us=START_US,
        ended_at_us=START_US + runtime_us,
    )


def shutters(ipc_during: float = 1.25, ended_us: int = HOUR_US, job: str = "b") -> ShuttersMeasured:
    return ShuttersMeasured(
        job_id="s/c/1/0",
        attempt=1,
        co_runner_job_id=job,
        began_at_us=START_US,
        ended_at_us=START_US + ended_us,
        shutters=[Shutter(ipc_before=1.0, ipc_during=ipc_during, ipc_after=1.0)],
    )


def test_a_finished_job_is_charged_in_the_round_that_brings_its_finish() -> None:
    driver = Driver()
    driver.take(submitted())
    assert driver.end_round(0, START_US) == []
    driver.take(finished())
    (charge,) = driver.end_round(1, START_US + HOUR_US)
    assert charge.price_su == charge.state_of_practice_su == "34.560000"
    assert (charge.revision, charge.charged_at_us) == (1, START_US + HOUR_US)
    assert driver.end_round(2, START_US + 2 * HOUR_US) == []


def test_a_job_of_uneven_units_pays_the_cores_that_it_held() -> None:
    driver = Driver()
    driver.take(submitted())
    uneven = finished()
    uneven.cores = 90
    driver.take(uneven)
    (charge,) = driver.end_round(1, START_US + HOUR_US)
    assert (charge.cores, charge.price_su) == (90, "32.400000")


def test_a_charge_belongs_to_the_trace_of_its_job_and_has_a_natural_key() -> None:
    driver = Driver()
    driver.take(submitted())
    driver.take(finished())
    (publish,) = driver.processor.end_round(Round(0, START_US + HOUR_US))
    assert publish.topic == "prices.charges"
    assert publish.event.id == "pricing/coplace.v1.ChargeMade/s/c/1/0/1/1"
    assert (publish.event.key, publish.event.traceparent) == ("s/c/1/0", TRACE)


def test_shutters_discount_the_price_whenever_they_came() -> None:
    for order in ([shutters(), submitted(), finished()], [submitted(), finished(), shutters()]):
        driver = Driver()
        for payload in order:
            driver.take(payload)
        (charge,) = driver.end_round(0, START_US + HOUR_US)
        assert charge.slowdown_ratio == pytest.approx(1.25)
        assert charge.price_su == "22.118400"
        assert [row.co_runner_job_id for row in charge.evidence] == ["b"]


def test_shutters_after_the_charge_make_a_new_revision() -> None:
    driver = Driver()
    driver.take(submitted())
    driver.take(finished())
    driver.end_round(0, START_US + HOUR_US)
    driver.take(shutters())
    (charge,) = driver.end_round(1, START_US + 2 * HOUR_US)
    assert (charge.revision, charge.price_su) == (2, "22.118400")


def test_a_clock_waits_for_the_grace_before_it_charges() -> None:
    driver = Driver(CLOCK)
    driver.take(submitted())
    driver.take(finished())
    assert driver.end_round(0, START_US + HOUR_US) == []
    driver.crash()
    assert driver.end_round(1, START_US + HOUR_US + 59_000_000) == []
    driver.take(shutters())
    assert driver.end_round(2, START_US + HOUR_US + 60_000_000) == []
    (charge,) = driver.end_round(3, START_US + HOUR_US + 120_000_000)
    assert (charge.revision, charge.slowdown_ratio) == (1, 1.25)


@pytest.mark.parametrize("early", [finished(), JobRequeued(job_id="s/c/1/0", attempt=2)])
def test_what_comes_before_the_submission_is_early(early: Message) -> None:
    driver = Driver()
    with pytest.raises(EarlyError, match="never submitted"):
        driver.take(early)
    assert driver.end_round(0, START_US + HOUR_US) == []
    assert driver.state == {}


@pytest.mark.parametrize("fact", [submitted(), finished(), shutters()])
def test_a_copy_changes_nothing(fact: Message) -> None:
    driver = Driver()
    for payload in (submitted(), shutters(), finished()):
        driver.take(payload)
    driver.end_round(0, START_US + HOUR_US)
    with pytest.raises(AlreadyAppliedError):
        driver.take(fact)
    assert driver.end_round(1, START_US + 2 * HOUR_US) == []


@pytest.mark.parametrize(
    "kind",
    [JobDeclined, JobCancelled, JobHeld, JobReleased],
    ids=lambda kind: kind.__name__,
)
def test_what_is_asked_of_a_job_and_its_start_cost_nothing(kind: type[Message]) -> None:
    driver = Driver()
    driver.take(submitted())
    driver.end_round(0, START_US)
    before = dict(driver.state)
    driver.take(kind(job_id="s/c/1/0"))
    assert driver.end_round(1, START_US + HOUR_US) == []
    assert driver.state == before


def test_each_attempt_of_a_requeued_job_is_charged_for_itself() -> None:
    driver = Driver()
    for payload in (submitted(), finished(), JobRequeued(job_id="s/c/1/0", attempt=2)):
        driver.take(payload)
    driver.take(finished(attempt=2))
    charges = driver.end_round(0, START_US + HOUR_US)
    assert [(charge.attempt, charge.revision) for charge in charges] == [(1, 1), (2, 1)]


def test_an_attempt_that_was_requeued_without_an_end_is_forgotten() -> None:
    driver = Driver()
    for payload in (submitted(), started(), JobRequeued(job_id="s/c/1/0", attempt=2)):
        driver.take(payload)
    driver.end_round(0, START_US)
    driver.take(finished(attempt=2))
    assert len(driver.end_round(1, START_US + HOUR_US)) == 1
    driver.end_round(2, START_US + 11 * HOUR_US)
    assert [*driver.state] == ["account\nphysics"]


def test_each_attempt_is_charged_when_its_finish_overtakes_the_requeue() -> None:
    driver = Driver()
    driver.take(submitted())
    driver.take(finished(attempt=2))
    driver.take(JobRequeued(job_id="s/c/1/0", attempt=2))
    driver.take(finished())
    charges = driver.end_round(0, START_US + HOUR_US)
    assert [(charge.attempt, charge.revision) for charge in charges] == [(1, 1), (2, 1)]


def test_a_late_finish_of_an_attempt_that_was_seized_is_charged_as_that_attempt() -> None:
    driver = Driver()
    driver.take(submitted())
    driver.take(JobSeized(job_id="s/c/1/0", attempt=1))
    driver.take(finished(attempt=2))
    (second,) = driver.end_round(0, START_US + HOUR_US)
    driver.take(finished())
    (first,) = driver.end_round(1, START_US + 2 * HOUR_US)
    assert (first.attempt, second.attempt) == (1, 2)


def test_a_copy_of_the_end_of_an_early_attempt_is_known_while_a_later_one_runs() -> None:
    driver = Driver()
    for payload in (submitted(), finished(), JobRequeued(job_id="s/c/1/0", attempt=2)):
        driver.take(payload)
    driver.end_round(0, START_US + HOUR_US)
    driver.end_round(1, START_US + 100 * HOUR_US)
    driver.crash()
    with pytest.raises(AlreadyAppliedError):
        driver.take(finished())


def test_all_state_of_a_job_is_dropped_some_time_after_its_charge() -> None:
    driver = Driver()
    for payload in (submitted(), shutters(), finished(), shutters(job="c")):
        driver.take(payload, str(payload))
    driver.end_round(0, START_US + HOUR_US)
    assert driver.state
    driver.end_round(1, START_US + 11 * HOUR_US)
    assert [*driver.state] == ["account\nphysics"]


def test_shutters_of_a_job_that_nobody_submits_are_dropped() -> None:
    driver = Driver()
    driver.take(shutters())
    driver.end_round(0, START_US)
    driver.crash()
    driver.end_round(1, START_US + 10 * HOUR_US)
    assert driver.state == {}


def test_charges_of_a_round_are_in_the_order_of_job_ids() -> None:
    driver = Driver()
    for job in ("s/c/9/0", "s/c/2/0", "s/c/5/0"):
        driver.take(submitted(job=job), f"submitted {job}")
        driver.take(finished(job=job), f"finished {job}")
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
def test_a_finish_that_cannot_be_priced_names_the_field(
    field: str, broken: Mapping[str, object]
) -> None:
    driver = Driver()
    driver.take(submitted())
    bad = finished()
    for name, value in broken.items():
        setattr(bad, name, value)
    with pytest.raises(RejectedError) as error:
        driver.take(bad)
    assert error.value.field == field
    driver.take(finished())
    assert len(driver.end_round(0, START_US + HOUR_US)) == 1


@pytest.mark.parametrize(
    "name",
    sorted(
        {
            message
            for topic in ("jobs.events", "telemetry.shutters", "commands", "billing")
            for message in Topics().spec(topic).messages
        }
        - {"coplace.v1.RoundEnded"}
    ),
)
def test_whatever_its_topics_hold_is_known(name: str) -> None:
    payload, refused = MESSAGES[name](), ""
    try:
        Driver().processor.handle(Event("e", "test", START_US, "", payload))
    except AlreadyAppliedError:
        pass  # nothing that is new
    except RejectedError as error:
        refused = error.field
    assert refused != "ce_type"


def test_what_does_not_belong_here_is_refused() -> None:
    with pytest.raises(RejectedError, match="ce_type"):
        Driver().take(DegradationModelPublished())


facts = st.sampled_from(
    [
        ("1", submitted()),
        ("2", started()),
        ("3", shutters()),
        ("4", shutters(ipc_during=2.0, ended_us=HOUR_US // 2, job="c")),
        ("5", finished()),
        ("6", JobRequeued(job_id="s/c/1/0", attempt=2)),
    ]
)


@given(st.lists(facts, max_size=14), st.integers(0, 14))
def test_a_crash_between_any_two_facts_leaves_the_charges_as_they_are(
    log: list[tuple[str, Message]], crash_at: int
) -> None:
    assert _charges(log, crash_at) == _charges(log, None)


def _charges(log: Iterable[tuple[str, Message]], crash_at: int | None) -> list[bytes]:
    driver = Driver()
    made = []
    for index, (event_id, payload) in enumerate(log):
        if index == crash_at:
            driver.crash()
        try:
            driver.take(payload, event_id)
        except (RejectedError, AlreadyAppliedError):
            continue
        if index % 3 == 0:
            made += driver.end_round(index, START_US + index * HOUR_US)
    made += driver.end_round(99, START_US + 99 * HOUR_US)
    return [charge.SerializeToString(deterministic=True) for charge in made]


def test_what_a_wrong_clock_put_off_is_due_after_it_is_mended() -> None:
    wrong_us = START_US + 10 * 365 * 24 * HOUR_US
    driver = Driver(CLOCK)
    driver.take(submitted())
    driver.take(finished())
    assert driver.end_round(0, wrong_us) == []
    driver.save(mended(driver.state, CLOCK, START_US))
    assert mended(driver.state, CLOCK, START_US) == {}
    driver.processor = PricingProcessor(CLOCK, driver.state)
    assert driver.end_round(1, START_US + CLOCK.grace_us - 1) == []
    assert len(driver.end_round(2, START_US + CLOCK.grace_us)) == 1


def test_what_is_charged_again_from_a_lost_state_follows_on_the_revisions_in_the_ledger() -> None:
    first = Driver()
    facts = [("1", submitted()), ("2", finished()), ("3", shutters())]
    told = []
    for number, (event_id, fact) in enumerate(facts):
        first.take(fact, event_id)
        told += first.end_round(number, START_US)
    assert [charge.revision for charge in told] == [1, 2]
    events = [Event(f"c{c.revision}", SOURCE, START_US, c.job_id, c) for c in told]
    forged = ChargeMade(job_id="s/c/1/0", attempt=1, revision=2**31)
    state = recalled({}, [*events, Event("x", "somebody", START_US, forged.job_id, forged)])
    again = Driver()
    again.save(state)
    again.processor = PricingProcessor(BARRIERS, again.state)
    for event_id, fact in facts:
        again.take(fact, event_id)
    [charge] = again.end_round(9, START_US)
    assert (charge.revision, charge.price_su) == (3, told[-1].price_su)
    assert recalled(again.state, events) == {}
