"""Who was beside whom, and whose word on the end of a run counts."""

from decimal import Decimal
from itertools import permutations
from typing import Any

import msgspec
import pytest
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
from services.pricing.processor import PriceRule
from services.pricing.runs import CoRunTime, KeptRun
from tests.support.messaging import START_US
from tests.unit.services.pricing.support import (
    HOUR_US,
    JOB,
    Driver,
    beside,
    finished,
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
    driver.take(tariff(), submitted(), STARTED, beside("b"), END)
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
    at_us = START_US + 20 * MINUTE_US
    of: dict[str, Any] = {"job_id": "v", "attempt": 1}
    ends = {
        "requeued": JobRequeued(job_id="v", attempt=2, cluster="c", requeued_at_us=at_us),
        "seized": JobSeized(**of, seized_at_us=at_us),
        "by another": JobRequeued(job_id="v", attempt=2, cluster="d", requeued_at_us=at_us),
        "finished": finished(**of, started_at_us=START_US, ended_at_us=at_us),
    }
    victim = JobSubmitted(**of, user="eve", account="bio", nodes=1)
    there = JobStarted(**of, cluster="c", nodes=["c-1"], started_at_us=START_US)
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
        assert row.duration_s == (1205.0 if end == "by another" else 1200.0), order


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
    assert KeptRun(1, "c", "", START_US).ended_by(0).ended_at_us == 0
