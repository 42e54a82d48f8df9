"""An interactive job is answered in the round of its submission, and does not wait beyond its
time."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_pb2 import (
    MISFIT_KIND_STARTS_TOO_LATE,
    VERDICT_HELD,
    VERDICT_QUEUED,
    VERDICT_REJECTED,
    PlacementDecided,
)

from shared.catalogue.event import Event
from tests.chaos.audit.evidence import Evidence, is_hostile

_WAITS = (VERDICT_QUEUED, VERDICT_HELD)


def is_too_late(decided: PlacementDecided) -> bool:
    """Whether a job was rejected since it would start too late."""
    kinds = {misfit.kind for misfit in decided.misfits}
    return decided.verdict == VERDICT_REJECTED and MISFIT_KIND_STARTS_TOO_LATE in kinds


@dataclass(slots=True)
class _New:
    """Interactive jobs that were submitted since the last round, the first time."""

    known: set[str] = field(default_factory=set)
    jobs: list[JobSubmitted] = field(default_factory=list)
    named: set[str] = field(default_factory=set)

    def learn(self, event: Event) -> None:
        """One more event; what was said of a job before its submission may answer it."""
        told = event.payload
        job_id = getattr(told, "job_id", "")
        if isinstance(told, JobSubmitted) and job_id not in self.known | self.named:
            self.known.add(job_id)
            if told.is_interactive and not is_hostile(job_id):
                self.jobs.append(told)
        elif job_id not in self.known:
            self.named.add(job_id)


def every_interactive_job_is_answered_at_once(evidence: Evidence) -> Iterator[str]:
    """It starts, is rejected, or waits until a time that is within its own where one is known."""
    new = _New()
    for ended in evidence.ends_of_rounds(new.learn):
        decisions = {d.job_id: d for d in evidence.by_round.get(ended.round, [])}
        for job in new.jobs:
            of = f"{job.job_id} in round {ended.round}"
            decided = decisions.get(job.job_id)
            if decided is None:
                if not _is_refused(evidence, job.job_id):
                    yield f"{of} has no answer"
            elif decided.verdict in _WAITS:
                yield from (f"{of} {problem}" for problem in _late(decided, job))
        new.jobs = []


def nobody_is_rejected_as_late_who_is_not(evidence: Evidence) -> Iterator[str]:
    """A rejection of this kind comes when the time is over, or where the start is after it."""
    for decided in evidence.decisions:
        if is_too_late(decided) and not is_hostile(decided.job_id):
            job = evidence.world.journal.submission(decided.job_id)
            assert job is not None
            by_us = job.submitted_at_us + job.starts_within_s * 1e6
            is_over = by_us <= decided.decided_at_us + 1
            is_late = not decided.expected_start_us or decided.expected_start_us >= by_us
            if not (job.starts_within_s and (is_over or is_late)):
                yield f"{decided.job_id} in round {decided.round} is rejected as late"


def _late(decided: PlacementDecided, job: JobSubmitted) -> Iterator[str]:
    expected_us, by_us = decided.expected_start_us, job.submitted_at_us + job.starts_within_s * 1e6
    if expected_us and expected_us < decided.decided_at_us:
        yield f"is expected to start at {expected_us}, before {decided.decided_at_us}"
    if job.starts_within_s and not decided.expected_start_us:
        yield "waits though no start is expected"
    if job.starts_within_s and expected_us > by_us + 1:
        yield f"waits though it starts {expected_us - by_us:.0f} us too late"


def _is_refused(evidence: Evidence, job_id: str) -> bool:
    ids = [e.id for e in evidence.world.journal.events.values() if e.key == job_id]
    return any(("placement", event_id) in evidence.refused for event_id in ids)
