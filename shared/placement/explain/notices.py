"""Notices about jobs that no pass started: their verdict or reason is another one."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from coplace.v1.placement_pb2 import (
    VERDICT_CANCELLED,
    VERDICT_HELD,
    VERDICT_QUEUED,
    VERDICT_REJECTED,
    Verdict,
)

from shared.domain.job import JobState
from shared.placement.decide.choices import favourite
from shared.placement.decide.pending_reason import is_lasting, is_passing
from shared.placement.decide.pending_reasons import PendingReasons
from shared.placement.decide.waiting_jobs import WaitingJobs
from shared.placement.explain.pending_words import PendingReasonWords
from shared.placement.state.job_record import JobRecord

# A user at a limit leaves it with each end and is there again with the next start. A decision on
# each job that waits would be published each time: how long such a reason lasts at least, s.
_SETTLES_S: Final = 600.0


class JobSituation(NamedTuple):
    """The verdict on a job, and what it waits for. A reason that is `passing` comes and goes with
    what runs: free nodes, of which nothing is said, and limits."""

    verdict: Verdict.ValueType
    what: str = ""
    passing: bool = False


class Notices:
    """Compares the situations of jobs with what was published of them last.

    A function of jobs and round time, so that a restart, which looks at all jobs, decides the same.
    """

    def __init__(
        self, pending_reasons: PendingReasons, words: PendingReasonWords, waiting_jobs: WaitingJobs
    ) -> None:
        self._pending_reasons, self._words = pending_reasons, words
        self._waiting_jobs = waiting_jobs
        self._put_off: dict[str, float] = {}

    def due_s(self) -> Iterable[float]:
        """Return when notices that were put off are due."""
        return self._put_off.values()

    def take_due(self, now_s: float) -> set[str]:
        """Return the ids of the jobs whose notices were put off until now, once."""
        due = {job_id for job_id, due_s in self._put_off.items() if due_s <= now_s}
        for job_id in due:
            del self._put_off[job_id]
        return due

    def of(self, job: JobRecord, now_s: float) -> JobSituation | None:
        """Return what to publish of a job now; None when that is nothing new, or it runs or has
        ended."""
        found = self._situation(job)
        if found is None or (found.verdict, found.what) == (job.notice.verdict, job.notice.reason):
            return None
        if found.passing and found.verdict == job.notice.verdict:
            if now_s < job.notice.settles_s:
                self._put_off[job.job.job_id] = job.notice.settles_s
                return None
            job.notice.settles_s = now_s + _SETTLES_S
        return found

    def _situation(self, job: JobRecord) -> JobSituation | None:
        if job.requests.cancelled is not None and job.life.state is not JobState.FINISHED:
            return JobSituation(VERDICT_CANCELLED)
        if job.life.state is JobState.REJECTED:
            return JobSituation(VERDICT_REJECTED)
        if not job.waits:
            return None
        pending_reason = self._pending_reasons.of_job(job)
        if pending_reason is not None:
            verdict = VERDICT_HELD if is_lasting(pending_reason) else VERDICT_QUEUED
            what = self._words(pending_reason).stable
            return JobSituation(verdict, what, is_passing(pending_reason))
        return self._in_line(job)

    def _in_line(self, job: JobRecord) -> JobSituation:
        first = favourite(self._waiting_jobs.choices(job))
        pending_reason = self._pending_reasons.of_entry(job, first.candidate)
        if pending_reason is None:
            return JobSituation(VERDICT_QUEUED, passing=True)
        what = f"{first.cluster}: {self._words(pending_reason).stable}"
        return JobSituation(VERDICT_QUEUED, what, is_passing(pending_reason))
