"""Jobs whose submitters wait for an answer: when those start that did not start at once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from coplace.v1.placement_pb2 import MISFIT_KIND_STARTS_TOO_LATE

from shared.domain.times import in_utc
from shared.placement.decide.waiting_jobs import WaitingJobs
from shared.placement.state.job_record import JobRecord
from shared.placement.state.job_table import JobTable
from shared.placement.state.misfit import Misfit


@dataclass(frozen=True, slots=True)
class InteractiveJobs:
    """Rejects interactive jobs that do not start in time, and says of the others when they do. What
    is expected is worked out in the round of the submission alone."""

    table: JobTable
    waiting_jobs: WaitingJobs

    def are_to_answer(self, touched: Iterable[JobRecord], now_s: float) -> list[JobRecord]:
        """Return the interactive jobs of these that wait and need an answer: nothing was published
        of them yet, or their time is over."""
        return [
            job
            for job in touched
            if job.job.is_interactive
            and job.waits
            and (not job.notice.verdict or job.job.starts_by_s <= now_s)
        ]

    def answer(
        self, jobs: Sequence[JobRecord], now_s: float, expected_s: Callable[[JobRecord], float]
    ) -> Mapping[str, float]:
        """Reject those of these jobs that start too late; return by job when each is expected to
        start, infinite where nobody knows."""
        found = {job.job.job_id: expected_s(job) for job in jobs}
        for job in jobs:
            start_s, by_s = found[job.job.job_id], job.job.starts_by_s
            if start_s > by_s or by_s <= now_s:
                self.waiting_jobs.leave(job.job.job_id)
                self.table.reject(job, (too_late(job, start_s),))
        return found


def too_late(job: JobRecord, start_s: float) -> Misfit:
    """Return why an interactive job does not wait any more that is expected to start then."""
    within_s = job.job.starts_within_s
    expected = (
        f"is expected to start {in_utc(start_s)}" if start_s < inf else "no start is expected"
    )
    reason = f"was to start within {within_s:g} s of its submission, and {expected}"
    needed_s = start_s - job.job.submit_s if start_s < inf else 0.0
    counted = max(needed_s, 0.0), within_s if needed_s > 0 else 0.0
    return Misfit("", MISFIT_KIND_STARTS_TOO_LATE, reason, *counted)
