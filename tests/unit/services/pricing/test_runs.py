"""Who was beside whom, and whose word on the end of a run counts."""

from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal
from itertools import permutations
from typing import Any

import msgspec
import pytest
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import (
    JobFinished,
    JobRequeued,
    JobSeized,
    JobStarted,
    JobSubmitted,
)
from coplace.v1.tariffs_pb2 import PAYER_OPERATOR
from google.protobuf.message import Message

from coplace_client.errors import RejectedError
from services.pricing.explanation import explain_charge
from services.pricing.processor import PriceRule
from services.pricing.runs import CoRunTime, KeptRequeue, KeptRun, runs_known
from shared.streams.stages.stage import AlreadyAppliedError, EarlyError
from tests.support.messaging import START_US
from tests.unit.services.pricing.support import (
    HOUR_US,
    JOB,
    Driver,
    beside,
    finished,
    neighbour,
    shutters,
    submitted,
    tariff,
)

MINUTE_US = 60_000_000
CLOCK = PriceRule(Decimal("0.0001"), grace_us=MINUTE_US, remember_us=10 * HOUR_US)


def run(cluster: str = "c", nodes: str = "", began: int = 0, ended: int = 0) -> KeptRun:
    """A run, its times in minutes after the hour."""
    end_us = START_US + ended * MINUTE_US if ended else 0
    return KeptRun(1, cluster, nodes, START_US + began * MINUTE_US, end_us)


@pytest.mark.parametrize(
    ("other", "beside"),
    [
        (run(), True),
        (run(nodes="n[3-5]"), True),
        (run(nodes="n[4-5]"), False),
        (run("d", nodes="n[3-5]"), False),
        (run(ended=60), True),
        (run(ended=20), False),
        (run(began=20), False),
        (run(began=1), False),
        (run(began=60, ended=70), False),
    ],
)
def test_two_runs_are_beside_each_other_where_both_were_on_a_node(
    other: KeptRun, beside: bool
) -> None:
    of, hour = run(nodes="n[1-3]"), CoRunTime(START_US, START_US + 60 * MINUTE_US)
    assert of.time_beside(other, hour) == (hour if beside else None)


@pytest.mark.parametrize(
    ("began_s", "ended_s", "counts"),
    [
        (0, 60, None),
        (19, 41, (20, 40)),
        (25, 49, (25, 40)),
        (11, 20, (20, 20)),
        (11, 19, None),
        (41, 45, None),
        (9, 30, None),
        (30, 51, None),
    ],
)
def test_what_an_agent_measures_counts_as_far_as_both_ran(
    began_s: int, ended_s: int, counts: tuple[int, int] | None
) -> None:
    """Clocks may differ by 10 s; a run takes 20 s, the other one an hour."""
    second_us = 1_000_000
    short = KeptRun(1, "c", "", START_US + 20 * second_us, START_US + 40 * second_us)
    measured = CoRunTime(START_US + began_s * second_us, START_US + ended_s * second_us)
    right = counts and CoRunTime(*(START_US + each * second_us for each in counts))
    assert run(ended=60).time_beside(short, measured) == right
    assert short.time_beside(run(ended=60), measured) == right


def test_neighbours_of_a_moment_discount_no_more_than_that_moment() -> None:
    """An agent says that each was there for ten seconds before and after."""
    driver, second_us = Driver(), 1_000_000
    driver.take(tariff(), submitted(), STARTED)
    for number in range(1, 60):
        began_us, name = START_US + number * MINUTE_US, f"v{number}"
        times_us = {"started_at_us": began_us, "ended_at_us": began_us + second_us}
        driver.take(JobSubmitted(job_id=name, attempt=1, user="eve", account="bio", nodes=1))
        driver.take(finished(job_id=name, user="eve", account="bio", nodes=1, **times_us))
        around_us = began_us - 9 * second_us, began_us + 10 * second_us
        measured = shutters(beside=name, began_at_us=around_us[0], ended_at_us=around_us[1])
        driver.processor.handle(driver.event(measured))
    driver.take(END)
    driver.end_round(1, START_US)
    [charge] = [each for each in driver.charges if each.job_id == JOB]
    assert {row.duration_s for row in charge.evidence} == {1.0}


def test_who_goes_on_measuring_puts_no_charge_off() -> None:
    driver = Driver(CLOCK)
    driver.take(tariff(), submitted(), STARTED, neighbour("b"), beside("b"), END)
    made = []
    for minute in range(10):
        driver.take(shutters(ended_at_us=START_US + MINUTE_US + minute))
        made.append(len(driver.end_round(minute, END.ended_at_us + minute * MINUTE_US // 2)))
        driver.crash()
    assert made == [0, 0, 1, 0, 0, 1, 0, 0, 1, 0]


@pytest.mark.parametrize("end", ["requeued", "seized", "by another", "finished"])
def test_a_neighbour_counts_until_its_attempt_ended_in_whatever_order_that_is_known(
    end: str,
) -> None:
    """It begins a second after the job."""
    began_us, at_us = START_US + 1_000_000, START_US + 20 * MINUTE_US
    of: dict[str, Any] = {"job_id": "v", "attempt": 1}
    ends = {
        "requeued": JobRequeued(job_id="v", attempt=2, cluster="c", requeued_at_us=at_us),
        "seized": JobSeized(**of, seized_at_us=at_us),
        "by another": JobRequeued(job_id="v", attempt=2, cluster="d", requeued_at_us=at_us),
        "finished": finished(**of, started_at_us=began_us, ended_at_us=at_us),
    }
    victim = JobSubmitted(**of, user="eve", account="bio", nodes=1, shareable=True)
    there = JobStarted(**of, cluster="c", nodes=["c-1"], started_at_us=began_us)
    measured = shutters(beside="v", ended_at_us=at_us + 5_000_000)
    for order in permutations([there, ends[end], measured, END]):
        driver = Driver()
        driver.take(tariff(), submitted(), victim, STARTED)
        for number, fact in enumerate(order):
            driver.processor.handle(driver.event(fact))
            driver.end_round(number, START_US + number)
            driver.crash()
        charge = [each for each in driver.charges if each.job_id == JOB][-1]
        [row] = charge.evidence
        assert row.duration_s == (1204.0 if end == "by another" else 1199.0), order


def seconds_beside(*facts: Message, known: list[Message]) -> set[float]:
    """For how long the job was beside v by its last charge, in whatever order facts come."""
    found = set()
    for order in permutations(facts):
        driver, waiting = Driver(), list[Message]()
        _early(driver, [tariff(surcharge_share="1"), *known])
        for number, fact in enumerate(order):
            waiting = _early(driver, [fact, *waiting])
            driver.end_round(number, START_US + number)
            driver.crash()
        charge = [each for each in driver.charges if each.job_id == JOB][-1]
        found.add(sum(row.duration_s for row in charge.evidence))
    return found


def _early(driver: Driver, facts: Iterable[Message]) -> list[Message]:
    """Those of the facts that wait for another one; a copy of one is taken."""
    early = []
    for fact in facts:
        try:
            with suppress(AlreadyAppliedError):
                driver.processor.handle(driver.event(fact))
        except EarlyError:
            early.append(fact)
    return early


def asked(job_id: str = "v", **units: Any) -> JobSubmitted:
    """A job of part of a node, of a whole one, or of half of one that takes others."""
    return JobSubmitted(job_id=job_id, attempt=1, user="eve", account="bio", nodes=1, **units)


def start_of(job_id: str, minute: int = 0, nodes: str = "c-1", **of: Any) -> JobStarted:
    where: dict[str, Any] = {"attempt": 1, "cluster": "c", "nodes": [nodes]} | of
    return JobStarted(job_id=job_id, started_at_us=START_US + minute * MINUTE_US, **where)


def seized(minute: int, **of: Any) -> JobSeized:
    return JobSeized(job_id="v", attempt=1, seized_at_us=START_US + minute * MINUTE_US, **of)


# Nobody says that v has ended; the job begins ten minutes after it, and an agent names both.
TEN = START_US + 10 * MINUTE_US
LATER = finished(started_at_us=TEN)
CLAIM = shutters(beside="v", began_at_us=TEN, ended_at_us=TEN + 5 * MINUTE_US)
NODE = ClusterDeclared(cluster="c", cores_per_node=24, nodes=4)
WHOLE: dict[str, Any] = {"cores_per_unit": 24}
PART: dict[str, Any] = {"cores_per_unit": 12}
SHARED: dict[str, Any] = {"shareable": True}


@pytest.mark.parametrize(
    ("before", "grant_before", "then", "grant", "counts_s"),
    [
        ({}, 0, {}, 0, 0.0),
        ({}, 0, SHARED, 7, 0.0),
        (SHARED, 7, {}, 0, 0.0),
        ({}, 7, PART, 0, 0.0),
        (PART, 7, PART, 0, 0.0),
        (WHOLE, 0, PART, 0, 0.0),
        (PART, 0, WHOLE, 0, 0.0),
        (PART, 0, PART, 0, 300.0),
        (SHARED, 0, SHARED, 0, 300.0),
        (SHARED, 3, SHARED, 7, 300.0),
        (SHARED | WHOLE, 3, SHARED, 7, 0.0),
    ],
)
def test_who_leaves_no_room_on_a_node_is_beside_nobody_who_begins_there_later(
    before: dict[str, Any], grant_before: int, then: dict[str, Any], grant: int, counts_s: float
) -> None:
    """A resource manager divides nodes where it grants by itself, placement where a job is
    shareable alone."""
    told = asked(JOB, **then), asked(**before), start_of("v", grant=grant_before)
    of_job = start_of(JOB, 10, nodes="c-[1-2]", grant=grant)
    assert seconds_beside(*told, LATER, known=[NODE, CLAIM, of_job]) == {counts_s}


@pytest.mark.parametrize("of", [{}, PART, SHARED])
@pytest.mark.parametrize("minute", [0, 10])
def test_who_was_seized_is_beside_nobody_who_began_then_or_later(
    of: dict[str, Any], minute: int
) -> None:
    known = [NODE, CLAIM, asked(JOB, **of), start_of(JOB, 10)]
    facts = asked(**of), start_of("v", minute), seized(30), LATER
    assert seconds_beside(*facts, known=known) == {0.0}


def test_who_was_seized_was_beside_those_on_whose_node_it_began() -> None:
    """The node was well until the job ended there."""
    known = [CLAIM, asked(JOB, **SHARED), asked(**SHARED), start_of(JOB)]
    assert seconds_beside(start_of("v", 10), seized(30), finished(), known=known) == {300.0}


def test_the_seizure_of_another_grant_says_nothing_of_a_run() -> None:
    known = [CLAIM, asked(JOB, **SHARED), asked(**SHARED), start_of(JOB, 10)]
    facts = start_of("v", grant=2), seized(30, grant=1), LATER
    assert seconds_beside(*facts, known=known) == {300.0}


@pytest.mark.parametrize("units", [{}, SHARED])
@pytest.mark.parametrize("minute", [12, 20])
@pytest.mark.parametrize("is_requeued", [True, False])
def test_the_end_that_a_holder_says_counts_before_all_else(
    units: dict[str, Any], minute: int, is_requeued: bool
) -> None:
    """A resource manager that gives a node twice says so by both ends."""
    end_us = START_US + minute * MINUTE_US
    requeued = JobRequeued(job_id="v", attempt=2, cluster="c", requeued_at_us=end_us)
    of_v = finished(job_id="v", user="eve", account="bio", ended_at_us=end_us)
    end = requeued if is_requeued else of_v
    told = asked(JOB, **units), asked(**units), start_of(JOB, 10)
    claim = shutters(beside="v", began_at_us=TEN, ended_at_us=min(TEN + 5 * MINUTE_US, end_us))
    facts = start_of("v"), seized(30), end, LATER
    expected_s = min(minute - 10, 5) * 60.0
    assert seconds_beside(*facts, known=[*told, claim]) == {expected_s}


def test_a_neighbour_that_nobody_submitted_so_far_counts_once_somebody_does() -> None:
    driver = Driver()
    driver.take(tariff(), asked(JOB, **SHARED), start_of("v"), start_of(JOB, 10))
    driver.processor.handle(driver.event(CLAIM))
    driver.take(LATER)
    [first] = driver.end_round(1, START_US)
    assert not first.evidence
    driver.crash()
    driver.take(asked(**SHARED))
    [second] = driver.end_round(2, START_US)
    assert [row.duration_s for row in second.evidence] == [300.0]


def test_a_seizure_takes_back_what_was_charged_for_a_neighbour() -> None:
    driver = Driver()
    driver.take(tariff(surcharge_share="1"), asked(JOB, **SHARED), asked(**SHARED))
    driver.take(start_of("v"), start_of(JOB, 10))
    driver.processor.handle(driver.event(CLAIM))
    driver.take(LATER)
    [first] = driver.end_round(1, START_US)
    assert [row.co_runner_account for row in first.evidence] == ["bio"]
    driver.crash()
    driver.take(seized(30))
    [second] = driver.end_round(2, START_US)
    assert (second.revision, list(second.evidence)) == (2, [])
    assert second.price_su == second.state_of_practice_su


def test_a_charge_is_made_again_by_the_runs_that_were_believed() -> None:
    """The second attempt of v is beside the job for a shorter time than the first would be."""
    second_us, at_us = 1_000_000, START_US + 30 * MINUTE_US
    again = start_of("v", 30, attempt=2)
    again.started_at_us += 5 * second_us
    ended_us = at_us + 9 * second_us
    claim = shutters(beside="v", began_at_us=at_us - 5 * second_us, ended_at_us=ended_us)
    told = [asked(JOB, **SHARED), asked(**SHARED), start_of("v"), start_of(JOB, 10)]
    told += [seized(30), again, LATER]
    driver = Driver()
    _early(driver, [*told, claim])
    [charge] = driver.end_round(1, START_US)
    assert [row.duration_s for row in charge.evidence] == [4.0]
    assert explain_charge(charge, LATER, {"e": claim}, (), runs_known(told)).is_reproduced


def test_a_run_of_which_an_earlier_version_kept_less_was_there_until_its_end() -> None:
    driver = Driver()
    driver.take(asked(JOB, **SHARED), asked(**SHARED), start_of("v"), seized(30))
    driver.crash()
    [key] = [each for each in driver.state if each.startswith("attempt|v\n1")]
    *others, ran, requeues = msgspec.msgpack.decode(driver.state[key][2:])
    earlier = msgspec.msgpack.encode([*others, ran[:5], requeues])
    driver.state[key] = driver.state[key][:2] + earlier
    driver.restart()
    driver.take(start_of(JOB, 10), LATER)
    driver.processor.handle(driver.event(CLAIM))
    [charge] = driver.end_round(1, START_US)
    assert [row.duration_s for row in charge.evidence] == [300.0]


def price_of(*facts: Message) -> str:
    """What a run of an hour costs at last."""
    driver = Driver()
    driver.take(tariff(requeue=PAYER_OPERATOR, node_failure=PAYER_OPERATOR), submitted())
    for number, fact in enumerate(facts):
        driver.take(fact)
        driver.end_round(number, START_US + number)
        driver.crash()
    return driver.charges[-1].price_su


STARTED = JobStarted(
    job_id=JOB, attempt=1, cluster="c", nodes=["c-[1-4]"], started_at_us=START_US, grant=2
)
END = finished(grant=2)
FULL = "96.000000"


def requeue(**of: Any) -> JobRequeued:
    return JobRequeued(job_id=JOB, attempt=2, requeued_at_us=START_US, **of)


def test_a_submission_of_a_second_attempt_makes_no_run_free() -> None:
    assert price_of(STARTED, submitted(2), END) == FULL


@pytest.mark.parametrize(
    "of",
    [
        {"failed_nodes": ["c-1"]},
        {"cluster": "d", "failed_nodes": ["c-1"]},
        {"cluster": "c", "grant": 1, "failed_nodes": ["c-1"]},
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_who_does_not_hold_a_run_makes_it_not_free(of: dict[str, Any], place: int) -> None:
    facts: list[Message] = [STARTED, END]
    facts.insert(place, requeue(**of))
    assert price_of(*facts) == FULL


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(("grant", "price"), [(0, "0.000000"), (1, FULL), (2, "0.000000")])
def test_a_seizure_makes_the_run_of_its_own_grant_free(place: int, grant: int, price: str) -> None:
    """That of grant 1 was declined before it began, and the attempt ran under the next."""
    facts: list[Message] = [STARTED, END]
    facts.insert(place, JobSeized(job_id=JOB, attempt=1, seized_at_us=START_US, grant=grant))
    assert price_of(*facts) == price


@pytest.mark.parametrize("place", [0, 1, 2])
def test_who_holds_a_run_says_that_it_was_requeued(place: int) -> None:
    facts: list[Message] = [STARTED, END]
    facts.insert(place, requeue(cluster="c", grant=2))
    assert price_of(*facts) == "0.000000"


def test_a_run_by_a_higher_grant_is_charged_in_place_of_one_that_was_declined() -> None:
    of_declined = finished(cluster="d", grant=1, ended_at_us=START_US + MINUTE_US)
    assert price_of(of_declined, END) == FULL
    with pytest.raises(RejectedError, match="'d' does not hold the run, 'c' does"):
        price_of(STARTED, of_declined)


def test_a_job_that_left_a_queue_is_charged_for_the_run_that_it_has() -> None:
    left = JobFinished()
    left.CopyFrom(finished())
    left.started_at_us = 0
    assert price_of(left, END) == FULL


def test_an_agent_has_nobody_charged_for_a_run_that_was_elsewhere() -> None:
    driver = Driver()
    victim = JobSubmitted(job_id="v", attempt=1, user="eve", account="bio", nodes=1)
    there = JobStarted(job_id="v", attempt=1, cluster="d", nodes=["d-1"], started_at_us=START_US)
    measured = shutters(beside="v", ended_at_us=START_US + HOUR_US)
    driver.take(tariff(surcharge_share="1"), submitted(), victim, there, STARTED)
    driver.processor.handle(driver.event(measured))
    driver.take(END)
    [charge] = driver.end_round(1, START_US)
    assert (charge.price_su, list(charge.evidence)) == (FULL, [])


def test_an_attempt_of_the_version_before_is_charged_where_it_says_that_it_ran() -> None:
    driver = Driver()
    driver.take(tariff(), submitted(), END)
    driver.crash()
    [key] = [each for each in driver.state if each.startswith("attempt|")]
    *before, ran, requeues = msgspec.msgpack.decode(driver.state[key][2:])
    assert (bool(ran), requeues) == (True, [])
    driver.state[key] = b"\xc1\x01" + msgspec.msgpack.encode(before)
    driver.restart()
    driver.end_round(0, START_US)
    assert driver.charges[-1].price_su == FULL


def test_a_requeue_that_was_kept_without_its_time_counts_and_ends_no_run() -> None:
    driver = Driver()
    driver.take(tariff(requeue=PAYER_OPERATOR), submitted(), requeue(cluster="c", grant=2))
    driver.crash()
    key = min(each for each in driver.state if each.startswith("attempt|"))
    *others, kept = msgspec.msgpack.decode(driver.state[key][2:])
    earlier = msgspec.msgpack.encode([*others, [each[:3] for each in kept]])
    driver.state[key] = driver.state[key][:2] + earlier
    driver.restart()
    driver.take(STARTED, END)
    driver.end_round(0, START_US)
    assert driver.charges[-1].price_su == "0.000000"
    assert KeptRun(1, "c", "", START_US).ended_by(KeptRequeue("c", 2, "")).ended_at_us == 0
