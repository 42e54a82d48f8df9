"""What happened in a run, read back from its topics: events by id, copies dropped."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self, TypeVar

from coplace.v1.control_pb2 import ClusterDeclared, PowerCapDeclared
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    JobActionDone,
    JobFinished,
    JobSubmitted,
)
from coplace.v1.placement_pb2 import (
    ACTION_KIND_END,
    VERDICT_ACTION,
    VERDICT_START,
    PlacementDecided,
    SlowdownPromiseBroken,
)
from coplace.v1.pricing_pb2 import ChargeMade
from coplace.v1.telemetry_pb2 import SignatureMeasured
from google.protobuf.message import Message

from lab.demo.submission_power import SubmissionPower, submission_powers
from shared.catalogue.event import Event, ReadTopic
from shared.domain.array_tasks import as_task
from shared.domain.job import JobAttempt

Payload = TypeVar("Payload", bound=Message)


def payloads(events: Iterable[Event], kind: type[Payload]) -> list[Payload]:
    """Return the payloads of one kind, each id once, ordered by id."""
    found = {event.id: event.payload for event in events if isinstance(event.payload, kind)}
    return [found[event_id] for event_id in sorted(found)]


def _as_declared_last(commands: Iterable[Event]) -> list[ClusterDeclared]:
    """Each cluster once, by its name: the newest declaration holds."""
    found: dict[str, ClusterDeclared] = {}
    for event in sorted(commands, key=lambda event: (event.time_us, event.id)):
        if isinstance(event.payload, ClusterDeclared):
            found[event.payload.cluster] = event.payload
    return [found[name] for name in sorted(found)]


@dataclass(frozen=True, slots=True)
class History:
    """The facts of one run that its report needs."""

    clusters: list[ClusterDeclared]
    finished: list[JobFinished]
    signatures: list[SignatureMeasured]
    submission_powers: list[SubmissionPower]
    decisions: list[PlacementDecided]
    charges: list[ChargeMade]
    caps: list[PowerCapDeclared]
    done: list[JobActionDone]
    broken: list[SlowdownPromiseBroken]

    @classmethod
    def read(cls, topic: ReadTopic) -> Self:
        """Read the topics of a run from their start.

        Who says that a job finished which nobody submitted is no part of the run.
        """
        jobs, commands = list(topic("jobs.events")), list(topic("commands"))
        submitted = {job.job_id for job in payloads(jobs, JobSubmitted)}
        finished = [
            job
            for job in payloads(jobs, JobFinished)
            if job.job_id in submitted or ((task := as_task(job.job_id)) and task[0] in submitted)
        ]
        decided = list(topic("placement.decisions"))
        return cls(
            clusters=_as_declared_last(commands),
            finished=finished,
            signatures=payloads(topic("telemetry.signatures"), SignatureMeasured),
            submission_powers=submission_powers(topic("placement.inputs"), finished),
            decisions=sorted(
                payloads(decided, PlacementDecided),
                key=lambda d: (d.job_id, d.attempt, d.round),
            ),
            charges=sorted(
                payloads(topic("prices.charges"), ChargeMade),
                key=lambda c: (c.job_id, c.attempt, c.revision),
            ),
            caps=sorted(payloads(commands, PowerCapDeclared), key=lambda c: c.declared_at_us),
            done=payloads(jobs, JobActionDone),
            broken=payloads(decided, SlowdownPromiseBroken),
        )

    def starts(self) -> dict[JobAttempt, PlacementDecided]:
        """Return the decision that started each attempt of a job."""
        return {(d.job_id, d.attempt): d for d in self.decisions if d.verdict == VERDICT_START}

    def actions(self) -> dict[tuple[str, int, int], PlacementDecided]:
        """Return what was asked of each attempt of a job that ran, by number."""
        asked = (d for d in self.decisions if d.verdict == VERDICT_ACTION)
        return {(d.job_id, d.attempt, d.action.number): d for d in asked}

    def done_actions(self) -> Iterator[tuple[PlacementDecided, int]]:
        """Yield what was done of that, and when (us): an end by the finish of its run."""
        asked = self.actions()
        for done in self.done:
            yield asked[done.job_id, done.attempt, done.number], done.done_at_us
        cancelled = {
            (job.job_id, job.attempt): job.ended_at_us
            for job in self.finished
            if job.outcome == JOB_OUTCOME_CANCELLED
        }
        for (job_id, attempt, _), decided in asked.items():
            ended_us = cancelled.get((job_id, attempt))
            if decided.action.kind == ACTION_KIND_END and ended_us is not None:
                yield decided, ended_us

    def first_outcomes(self) -> dict[JobAttempt, PlacementDecided]:
        """Return the first recorded outcome of each attempt: what a decision is."""
        return {(d.job_id, d.attempt): d for d in reversed(self.decisions)}

    def final_charges(self) -> dict[JobAttempt, ChargeMade]:
        """Return the last revision of each attempt's charge."""
        return {(c.job_id, c.attempt): c for c in self.charges}
