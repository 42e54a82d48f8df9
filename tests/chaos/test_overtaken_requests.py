"""What the auditor demands where a request is refused that came behind one without an answer, of a
run that is short enough to be read."""

from types import SimpleNamespace
from typing import cast

from coplace.v1.jobs_pb2 import JobFinished, JobSubmitted
from coplace.v1.placement_pb2 import ACTION_KIND_RESUME, VERDICT_ACTION, PlacementDecided

from services.placement.app import stages
from shared.catalogue.event import Event
from shared.domain.rounds import RoundSource
from shared.process.settings import Settings
from shared.streams.in_memory.embedded import EmbeddedRuntime
from shared.streams.in_memory.log import InMemoryLog
from tests.chaos.audit.decisions import every_job_ends_or_waits_with_a_reason
from tests.chaos.audit.evidence import Evidence
from tests.chaos.journal import Journal
from tests.chaos.mutants import requests_that_were_overtaken_are_waited_for
from tests.chaos.world import RULES, World
from tests.unit.services.placement.test_app import CODEC, TOPICS, append, close, decisions
from tests.unit.shared.placement import region

MINUTE_US = 60_000_000


def evidence_of_a_refusal() -> Evidence:
    """Job a is suspended, is to run on, and is suspended again before its resource manager reads
    that: it refuses the newer request. Asked to run on once more, it does, and the job ends."""
    log, journal = InMemoryLog(), Journal()
    runtime = EmbeddedRuntime(log, stages(Settings(rounds=RoundSource.CLOCK), RULES), TOPICS)
    now_us = region.T0_US

    def decided(*events: Event) -> PlacementDecided:
        """The newest decision on job a in the round that the events come in."""
        nonlocal now_us
        append(log, events)
        now_us += MINUTE_US
        close(runtime, now_us)
        return decisions(log)["a"]

    submitted = region.submitted("a", nodes=2)
    journal.submissions["a"] = cast("JobSubmitted", submitted.payload)
    start = decided(region.declared("p1", 2), region.power(), submitted)
    decided(region.started(start))
    stop = decided(region.suspended("a", now_us + 1))
    decided(region.done(stop, now_us + 1))
    decided(region.unsuspended("a", now_us + 1))
    again = decided(region.suspended("a", now_us + 1))
    last = decided(region.refused(again, now_us + 1), region.unsuspended("a", now_us + 2))
    if last.verdict == VERDICT_ACTION and last.action.kind == ACTION_KIND_RESUME:
        decided(region.done(last, now_us + 1))
        finished = region.finished("a", now_us + 1, grant=1, cluster="p1")
        decided(finished)
        journal.finishes["a", 1] = cast("JobFinished", finished.payload)
    world = SimpleNamespace(log=log, codec=CODEC, journal=journal)
    return Evidence.of(cast("World", world))


def test_whoever_refuses_the_newer_request_is_asked_again() -> None:
    assert list(every_job_ends_or_waits_with_a_reason(evidence_of_a_refusal())) == []


def test_a_run_that_stands_still_behind_the_older_request_is_found() -> None:
    with requests_that_were_overtaken_are_waited_for():
        [found] = every_job_ends_or_waits_with_a_reason(evidence_of_a_refusal())
    assert "is the last word on a job that never ended" in found
