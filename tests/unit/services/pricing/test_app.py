"""The stage over the log in memory, its rounds closed by a clock."""

import pytest
from coplace.v1.jobs_pb2 import JOB_OUTCOME_COMPLETED, JobFinished, JobSubmitted
from coplace.v1.pricing_pb2 import ChargeMade

from services.pricing.app import stages
from shared.messaging.events.codec import Codec
from shared.messaging.events.event import Event, Publish
from shared.messaging.events.topics import Topics
from shared.messaging.in_memory.embedded import EmbeddedRuntime
from shared.messaging.in_memory.log import InMemoryLog
from shared.messaging.stages.consistency import InconsistentError
from shared.messaging.stages.stage import RoundSource
from shared.runtime.settings import Settings

TOPICS = Topics(kafka_partitions=1)
CODEC = Codec(TOPICS)
START_US = 1_767_225_600_000_000
JOB = "north/alpha/1/1767225600"


def test_a_delayed_charge_is_made_when_its_grace_is_over_although_nothing_else_happens() -> None:
    submitted = JobSubmitted(
        job_id=JOB,
        attempt=1,
        user="ada",
        account="physics",
        nodes=1,
        walltime_s=60.0,
        reference_cluster="alpha",
        submitted_at_us=START_US,
    )
    finished = JobFinished(
        job_id=JOB,
        attempt=1,
        outcome=JOB_OUTCOME_COMPLETED,
        cluster="alpha",
        user="ada",
        account="physics",
        nodes=1,
        cores_per_node=8,
        submitted_at_us=START_US,
        started_at_us=START_US,
        ended_at_us=START_US + 1_000_000,
    )
    log = InMemoryLog()
    runtime = EmbeddedRuntime(log, stages(Settings(rounds=RoundSource.CLOCK)), TOPICS)
    for number, payload in enumerate((submitted, finished)):
        event = Event(f"e{number}", "north", START_US, JOB, payload)
        log.append(CODEC.encode(Publish("jobs.events", event)))
    charged_s = []
    for second in range(1, 90):
        runtime.run_until_quiet(START_US + second * 1_000_000)
        runtime.close_rounds("pricing", START_US + second * 1_000_000)
        records = [r for place in TOPICS.partitions("prices.charges") for r in log.read(place)]
        if any(isinstance(CODEC.decode(record).payload, ChargeMade) for record in records):
            charged_s.append(second)
    assert charged_s[0] == 61
    assert len(records) == 1
    _looks_new_and_is_refused(log)


def _looks_new_and_is_refused(log: InMemoryLog) -> None:
    """It would begin with revision 1 of the charge again."""
    log.recreate("changelog.pricing")
    log.forget_positions("pricing")
    runtime = EmbeddedRuntime(log, stages(Settings(rounds=RoundSource.CLOCK)), TOPICS)
    with pytest.raises(InconsistentError, match="holds what pricing wrote: it is not new"):
        runtime.run_until_quiet(START_US + 90_000_000)
