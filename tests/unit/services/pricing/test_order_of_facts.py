"""In whichever order and however late the facts about a job arrive, they cost the same."""

from collections.abc import Mapping
from decimal import Decimal

from coplace.v1.control_pb2 import DeadLetter
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_COMPLETED,
    JobFinished,
    JobRequeued,
    JobStarted,
    JobSubmitted,
)
from coplace.v1.pricing_pb2 import ChargeMade
from coplace.v1.telemetry_pb2 import Shutter, ShuttersMeasured
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from services.pricing.processor import PriceRule, PricingProcessor
from shared.catalogue.event import Event, Publish
from shared.domain.rounds import RoundSource
from shared.streams.stages.stage import Stage
from tests.support.lives import Life
from tests.support.messaging import START_US

JOB = "s/c/1/0"
HOUR_US = 3_600_000_000


def finished(attempt: int, runtime_us: int) -> JobFinished:
    return JobFinished(
        job_id=JOB,
        attempt=attempt,
        outcome=JOB_OUTCOME_COMPLETED,
        user="ada",
        account="physics",
        cluster="c",
        nodes=4,
        cores_per_node=24,
        submitted_at_us=START_US,
        started_at_us=START_US,
        ended_at_us=START_US + runtime_us,
    )


SHUTTERS = ShuttersMeasured(
    job_id=JOB,
    attempt=1,
    co_runner_job_id="b",
    began_at_us=START_US,
    ended_at_us=START_US + HOUR_US,
    shutters=[Shutter(ipc_before=1.0, ipc_during=1.25, ipc_after=1.0)],
)
STORY: tuple[Message, ...] = (
    JobSubmitted(
        job_id=JOB,
        attempt=1,
        user="ada",
        account="physics",
        nodes=4,
        walltime_s=3600.0,
        reference_cluster="c",
        submitted_at_us=START_US,
    ),
    JobStarted(job_id=JOB, attempt=1, cluster="c", nodes=["n"], started_at_us=START_US),
    SHUTTERS,
    finished(1, HOUR_US),
    JobRequeued(job_id=JOB, attempt=2, requeued_at_us=START_US),
    finished(2, 2 * HOUR_US),
)


def create(_number: int, restored: Mapping[str, bytes]) -> PricingProcessor:
    tariff = PriceRule(Decimal("0.0001"), grace_us=0, remember_us=1000 * HOUR_US)
    return PricingProcessor(tariff, restored)


STAGE = Stage(
    "pricing",
    ("jobs.events", "telemetry.shutters"),
    ("prices.charges",),
    create,
    single=True,
    rounds=RoundSource.CLOCK,
    puts_barriers=False,
)


def publish(number: int) -> Publish:
    fact = STORY[number]
    topic = "telemetry.shutters" if fact is SHUTTERS else "jobs.events"
    return Publish(topic, Event(f"fact/{number}", "test", START_US, JOB, fact))


@settings(max_examples=100, deadline=None)
@given(
    st.permutations([*range(len(STORY)), 0, 3, 5]),
    st.lists(st.sampled_from(["", "round", "kill"]), min_size=9, max_size=9),
)
def test_each_attempt_costs_the_same(order: list[int], then: list[str]) -> None:
    life, told = Life(STAGE), list[Message]()
    for step, (number, what) in enumerate(zip(order, then, strict=True)):
        told += life.tell(publish(number))
        if what:
            told += life.end_round(START_US + step)
        if what == "kill":
            life.restart()
    told += life.end_round(START_US + 100)
    charges = [one for one in told if isinstance(one, ChargeMade)]
    last = {one.attempt: one.price_su for one in charges}
    assert last == {1: "22.118400", 2: "69.120000"}
    keys = [(one.attempt, one.revision) for one in charges]
    assert len(set(keys)) == len(keys)
    assert not any(isinstance(one, DeadLetter) for one in told)
