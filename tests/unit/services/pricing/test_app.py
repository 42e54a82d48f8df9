"""The stage over the log in memory, its rounds closed by a clock."""

import pytest
from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.pricing_pb2 import ChargeMade
from structlog.testing import capture_logs

from services.pricing.app import stages
from services.pricing.processor import PUT_OFF_US
from shared.catalogue.codec import Codec
from shared.catalogue.event import Event, Publish
from shared.catalogue.topics import Topics
from shared.domain.rounds import RoundSource
from shared.pricing import charge
from shared.pricing.model import Occupied
from shared.process.settings import Settings
from shared.streams.in_memory.embedded import EmbeddedRuntime
from shared.streams.stages.consistency import InconsistentError
from tests.support.messaging import START_US
from tests.support.operated_log import OperatedLog
from tests.unit.services.pricing.support import finished, submitted

TOPICS = Topics(kafka_partitions=1)
CODEC = Codec(TOPICS)
JOB = "north/alpha/1/1767225600"
SECOND_US = 1_000_000
STAGES = stages(Settings(rounds=RoundSource.CLOCK))


def of_finished_jobs(*job_ids: str) -> OperatedLog:
    log = OperatedLog()
    for job_id in job_ids:
        ended = finished(job_id=job_id, ended_at_us=START_US + SECOND_US)
        for payload in (submitted(job_id=job_id), ended):
            event = Event(f"{type(payload).__name__}/{job_id}", "north", START_US, job_id, payload)
            log.append(CODEC.encode(Publish("jobs.events", event)))
    return log


def charged(log: OperatedLog) -> list[str]:
    records = [r for place in TOPICS.partitions("prices.charges") for r in log.read(place)]
    payloads = [CODEC.decode(record).payload for record in records]
    return [payload.job_id for payload in payloads if isinstance(payload, ChargeMade)]


def test_a_delayed_charge_is_made_when_its_grace_is_over_although_nothing_else_happens() -> None:
    log = of_finished_jobs(JOB)
    runtime = EmbeddedRuntime(log, STAGES, TOPICS)
    charged_s = []
    for second in range(1, 90):
        runtime.run_until_quiet(START_US + second * SECOND_US)
        runtime.close_rounds("pricing", START_US + second * SECOND_US)
        if charged(log):
            charged_s.append(second)
    assert charged_s[0] == 61
    assert charged(log) == [JOB]
    _looks_new_and_is_refused(log)


def test_a_charge_that_always_fails_is_put_off_for_a_day_and_keeps_no_other_from_being_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good = [f"north/alpha/{number}/1767225600" for number in (2, 3)]
    log, right = of_finished_jobs(JOB, *good), charge.usage_of
    _pass(log, 2 * SECOND_US)

    def fails(finished: JobFinished) -> Occupied:
        if finished.job_id == JOB:
            raise KeyError("a defect")
        return right(finished)

    with monkeypatch.context() as broken, capture_logs() as logged:
        broken.setattr(charge, "usage_of", fails)
        _pass(log, 70 * SECOND_US)
        _pass(log, 80 * SECOND_US)
    assert charged(log) == good
    assert [line["subject"] for line in logged if line["event"] == "held back"] == [f"{JOB}/1"]
    _pass(log, 60 * SECOND_US + PUT_OFF_US)
    assert charged(log) == good
    _pass(log, 80 * SECOND_US + PUT_OFF_US)
    assert charged(log) == [*good, JOB]


def _pass(log: OperatedLog, later_us: int) -> None:
    """A process works and ends a round; whenever it dies there is another one."""
    for _ in range(5):
        runtime = EmbeddedRuntime(log, STAGES, TOPICS)
        try:
            runtime.run_until_quiet(START_US + later_us)
            runtime.close_rounds("pricing", START_US + later_us)
        except KeyError:
            continue
        finally:
            runtime.leave()
        return
    pytest.fail("it never passed")


def _looks_new_and_is_refused(log: OperatedLog) -> None:
    """It would begin with revision 1 of the charge again."""
    log.recreate("changelog.pricing")
    log.forget_positions("pricing")
    runtime = EmbeddedRuntime(log, STAGES, TOPICS)
    with pytest.raises(InconsistentError, match="holds what pricing wrote: it is not new"):
        runtime.run_until_quiet(START_US + 90 * SECOND_US)
