"""What users and operators ask of jobs."""

from dataclasses import replace

from coplace.v1.jobs_pb2 import (
    JobCancelled,
    JobHeld,
    JobPrioritized,
    JobReleased,
    JobRequeueAsked,
    JobResumed,
    JobSeized,
    JobSuspended,
)

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.domain.job import JobFact, next_state
from shared.placement.jobs.grants import require_given
from shared.placement.jobs.table import JobTable
from shared.placement.jobs.tracked import MOST_TEXT, Tracked
from shared.streams.stages.stage import AlreadyAppliedError


class JobRequests:
    """Folds what is asked of jobs into their table.

    Folds raise RejectedError for what cannot be done, of which EarlyError is for what may be asked
    later, and AlreadyAppliedError where something newer was asked.
    """

    def __init__(self, table: JobTable) -> None:
        self._table = table

    def cancel(self, event: Event, message: JobCancelled) -> None:
        """Somebody asked for the job's end, whatever its attempt: what waits ends at once, what
        runs by its finish, and what is granted when its resource manager has declined."""
        job = self._table.known(message.job_id)
        if job.cancelled is not None:
            raise AlreadyAppliedError(event.id)
        job.cancelled = message.reason[:MOST_TEXT]
        self._table.revisit(job)
        state = next_state(job.state, JobFact.CANCELLED)
        if state is not job.state:
            self._table.end(job, state)

    def hold(self, event: Event, message: JobHeld) -> None:
        """Somebody asked that the job not start; what runs is held when it is put back."""
        self._asked(event, message.job_id).held = message.reason[:MOST_TEXT]

    def release(self, event: Event, message: JobReleased) -> None:
        """The job may start, also when it was held since its starts were declined."""
        job = self._asked(event, message.job_id)
        job.held, job.missed_starts, job.requeues, job.isolated = None, 0, 0, False

    def prioritize(self, event: Event, message: JobPrioritized) -> None:
        """Give a job another priority: one that waits goes to its new place in the queue."""
        job, asked = self._table.known(message.job_id), (event.time_us, event.id)
        if asked <= job.priority_asked:
            raise AlreadyAppliedError(event.id)
        job.priority_asked = asked
        job.job = replace(job.job, priority=message.priority)
        self._table.revisit(job)

    def seize(self, event: Event, message: JobSeized) -> None:
        """An operator vouches that an attempt does not run where it was started or was to be: the
        next one queues up at the end."""
        job = self._table.newest(event, message.job_id, message.attempt)
        if job.placed is None and not job.runs_on:
            problem = f"{message.attempt} has no start that could be seized: it is {job.state}"
            raise RejectedError("attempt", problem)
        if message.grant not in (0, job.placed.grant if job.placed else job.grant):
            require_given(message.grant, job.grant)
            raise AlreadyAppliedError(event.id)
        reason = f"seized by {event.source[:MOST_TEXT]}: {message.reason[:MOST_TEXT]}"
        self._table.begin_next(job, message.attempt + 1, reason)

    def ask_back(self, event: Event, message: JobRequeueAsked) -> None:
        """Somebody asked that an attempt be put back. One that runs is when its resource manager
        has ended it; one that waits goes to the end of the queue, one that is granted when that
        has declined. Raises RejectedError for one that has ended or is to end."""
        job = self._table.newest(event, message.job_id, message.attempt)
        asked = event.time_us, event.id
        if asked <= job.requeue_asked or job.requeue is not None:
            raise AlreadyAppliedError(event.id)
        if job.ended or job.cancelled is not None:
            state = job.state if job.ended else "to end: it was cancelled"
            raise RejectedError("attempt", f"{message.attempt} cannot be put back, it is {state}")
        job.requeue_asked = asked
        job.requeue = f"requeued by {event.source[:MOST_TEXT]}: {message.reason[:MOST_TEXT]}"
        self._table.revisit(job)
        if job.waits:
            self._table.move_to_the_end(job)

    def suspend(self, event: Event, message: JobSuspended) -> None:
        """Somebody asked that a run be suspended; raises RejectedError where there is none."""
        job = self._table.known(message.job_id)
        if job.placed is None:
            raise RejectedError("job_id", f"has no run to suspend, it is {job.state}: hold it")
        by = f"{event.source[:MOST_TEXT]}: {message.reason[:MOST_TEXT]}"
        self._asked_to_suspend(event, job).suspend = f"suspended by {by}"

    def resume(self, event: Event, message: JobResumed) -> None:
        """A run that was suspended may go on."""
        self._asked_to_suspend(event, self._table.known(message.job_id)).suspend = None

    def _asked(self, event: Event, job_id: str) -> Tracked:
        """The job of which something is asked, unless something newer was. Of one that has ended
        it is asked for its next attempt."""
        job, asked = self._table.known(job_id), (event.time_us, event.id)
        if asked <= job.asked:
            raise AlreadyAppliedError(event.id)
        job.asked = asked
        self._table.revisit(job)
        return job

    def _asked_to_suspend(self, event: Event, job: Tracked) -> Tracked:
        """The job, unless something newer was asked of its run."""
        asked = event.time_us, event.id
        if asked <= job.suspend_asked:
            raise AlreadyAppliedError(event.id)
        job.suspend_asked = asked
        self._table.revisit(job)
        return job
