"""In whichever order and however late the facts about a job arrive, they cost the same."""

from dataclasses import replace

from coplace.v1.control_pb2 import DeadLetter
from coplace.v1.jobs_pb2 import (
    JobRequeued,
)
from coplace.v1.pricing_pb2 import ChargeMade
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.catalogue.event import Event, Publish
from tests.support.lives import Life
from tests.support.messaging import START_US
from tests.unit.services.pricing.support import (
    BARRIERS,
    HOUR_US,
    JOB,
    beside,
    finished,
    neighbour,
    shutters,
    stage,
    started,
    submitted,
)

SHUTTERS = shutters()
STORY = (
    submitted(),
    started(),
    SHUTTERS,
    finished(),
    JobRequeued(job_id=JOB, cluster="c", attempt=2, requeued_at_us=START_US),
    finished(2, ended_at_us=START_US + 2 * HOUR_US),
    beside("b"),
    neighbour("b"),
)
STAGE = stage(replace(BARRIERS, remember_us=1000 * HOUR_US))


def publish(number: int) -> Publish:
    fact = STORY[number]
    topic = "telemetry.shutters" if fact is SHUTTERS else "jobs.events"
    return Publish(topic, Event(f"fact/{number}", "test", START_US, fact.job_id, fact))


@settings(max_examples=100, deadline=None)
@given(
    st.permutations([*range(len(STORY)), 0, 3, 5]),
    st.lists(st.sampled_from(["", "round", "kill"]), min_size=11, max_size=11),
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
