"""What users and operators ask of jobs."""

from dataclasses import replace
from itertools import chain
from typing import Final

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
from shared.placement.state.grants import require_given
from shared.placement.state.holds import Holder, HoldWord, holders_of, with_word, word_of
from shared.placement.state.job_record import MOST_TEXT, JobRecord
from shared.placement.state.job_table import JobTable
from shared.placement.state.stamps import (
    is_ahead,
    overtaken,
    require_newer,
    set_back,
    stamp_of,
)
from shared.streams.stages.stage import AlreadyAppliedError

_STAMPS: Final = ("suspend_asked", "requeue_asked", "priority_asked")


class JobRequests:
    """Folds what is asked of jobs into their table.

    Folds raise RejectedError for what cannot be done, of which EarlyError is for what may be asked
    later, and AlreadyAppliedError where something newer was asked.
    """

    def __init__(self, table: JobTable) -> None:
        self._table = table
        # Of which something was asked since the last round ended; after a restart all.
        self._asked_of = {job.job.job_id for job in table.all()}

    def set_back(self, ended_us: int) -> None:
        """Set back what was asked from a clock ahead of the end of this round."""
        tasks = (self._table.tasks_of(job_id) for job_id in self._asked_of)
        jobs = self._table.found(self._asked_of)
        for job in (*jobs, *chain.from_iterable(tasks)):
            for name in _STAMPS:
                asked = getattr(job.requests, name)
                if is_ahead(asked[0], ended_us):
                    setattr(job.requests, name, set_back(asked, ended_us))
                    self._table.save(job)
            if any(is_ahead(word.asked[0], ended_us) for word in job.requests.holds):
                job.requests.holds = tuple(
                    word._replace(asked=set_back(word.asked, ended_us))
                    for word in job.requests.holds
                )
                self._table.save(job)
        self._asked_of.clear()

    def note_asked(self, job_id: str) -> None:
        """Note that a job came held, from a clock that may be ahead."""
        self._asked_of.add(job_id)

    def cancel(self, event: Event, message: JobCancelled) -> None:
        """Cancel a job, whatever its attempt: one that waits ends at once, one that runs by its
        finish, and one that is granted when its resource manager has declined."""
        job = self._table.known(message.job_id)
        if job.requests.cancelled is not None:
            raise AlreadyAppliedError(event.id)
        self._cancel(job, message.reason[:MOST_TEXT])
        if job.progress is not None:
            for task in self._table.tasks_of(job.job.job_id):
                if task.requests.cancelled is None:
                    self._cancel(task, message.reason[:MOST_TEXT])

    def _cancel(self, job: JobRecord, reason: str) -> None:
        job.requests.cancelled = reason
        self._table.revisit(job)
        if job.progress is not None:
            self._table.drop_left(job)
            return
        state = next_state(job.life.state, JobFact.CANCELLED)
        if state is not job.life.state:
            self._table.end(job, state)

    def hold(self, event: Event, message: JobHeld) -> None:
        """Hold a job, so that it does not start; one that runs is held when it is requeued. An
        array is held with all its tasks."""
        job, holder = self._table.known(message.job_id), Holder(message.holder)
        require_newer(event, word_of(job.requests.holds, holder).asked)
        for each in self._with_tasks(job):
            self._say(event, each, holder, message.reason[:MOST_TEXT])

    def release(self, event: Event, message: JobReleased) -> None:
        """Lift what some hold, or all: a job that nobody holds may start. Placement holds what
        failed too often."""
        job, holders = self._table.known(message.job_id), holders_of(message.holders)
        self._require_lifts(event, job, holders)
        for each in self._with_tasks(job):
            said = [holder for holder in holders if self._say(event, each, holder, None)]
            if Holder.ALL in said or Holder.PLACEMENT in said:
                each.requests.isolated = False
                each.grants.missed_starts, each.life.requeues = 0, 0
            if said:
                self._table.refuse(each, ())

    def _require_lifts(self, event: Event, job: JobRecord, holders: list[Holder]) -> None:
        """Raise AlreadyAppliedError where each holder, or whoever holds the job, has said something
        newer."""
        known = [word_of(job.requests.holds, holder).asked for holder in holders]
        if all(stamp_of(event) <= each for each in known):
            require_newer(event, max(known))
        held = [word.asked for word in job.requests.holds if word.reason is not None]
        if Holder.ALL in holders and held and stamp_of(event) < min(held):
            raise overtaken(event, max(held))

    def _say(self, event: Event, job: JobRecord, holder: Holder, reason: str | None) -> bool:
        """Note a word on a job, unless its holder has said something newer; return whether."""
        if stamp_of(event) <= word_of(job.requests.holds, holder).asked:
            return False
        word = HoldWord(holder, stamp_of(event), reason)
        job.requests.holds = with_word(job.requests.holds, word)
        self._revisit(job)
        return True

    def _with_tasks(self, job: JobRecord) -> list[JobRecord]:
        """Return a job, and of an array the tasks that are jobs of their own."""
        tasks = self._table.tasks_of(job.job.job_id) if job.progress is not None else []
        return [job, *tasks]

    def prioritize(self, event: Event, message: JobPrioritized) -> None:
        """Give a job another priority: one that waits goes to its new place in the queue."""
        for job in self._newer(event, message.job_id, "priority_asked"):
            job.job = replace(job.job, priority=message.priority)

    def seize(self, event: Event, message: JobSeized) -> None:
        """Seize an attempt, since an operator vouches that it does not run where it was started or
        was to be: the next one queues up at the end."""
        job = self._table.newest(event, message.job_id, message.attempt)
        on = job.run.allocation
        if on is None and not job.run.runs_on:
            problem = f"{message.attempt} has no start that could be seized: it is {job.life.state}"
            raise RejectedError("attempt", problem)
        if message.grant not in (0, on.grant if on else job.grants.newest):
            require_given(message.grant, job.grants.newest)
            raise AlreadyAppliedError(event.id)
        reason = f"seized by {event.source[:MOST_TEXT]}: {message.reason[:MOST_TEXT]}"
        self._table.begin_next(job, message.attempt + 1, reason)

    def requeue(self, event: Event, message: JobRequeueAsked) -> None:
        """Ask that an attempt be requeued. One that runs is when its resource manager has ended it;
        one that waits goes to the end of the queue, one that is granted when that has declined.
        Raises RejectedError for one that has ended or is to end."""
        job = self._table.newest(event, message.job_id, message.attempt)
        if job.requests.requeue is not None:
            raise AlreadyAppliedError(event.id)
        require_newer(event, job.requests.requeue_asked)
        if job.ended or job.requests.cancelled is not None:
            state = job.life.state if job.ended else "to end: it was cancelled"
            raise RejectedError("attempt", f"{message.attempt} cannot be requeued, it is {state}")
        job.requests.requeue_asked = stamp_of(event)
        job.requests.requeue = (
            f"requeued by {event.source[:MOST_TEXT]}: {message.reason[:MOST_TEXT]}"
        )
        self._revisit(job)
        if job.waits:
            self._table.move_to_the_end(job)

    def suspend(self, event: Event, message: JobSuspended) -> None:
        """Ask that a run be suspended. Raises RejectedError where there is none."""
        job = self._table.known_alone(message.job_id)
        if job.run.allocation is None:
            raise RejectedError("job_id", f"has no run to suspend, it is {job.life.state}: hold it")
        by = f"{event.source[:MOST_TEXT]}: {message.reason[:MOST_TEXT]}"
        self._asked_to_suspend(event, job).requests.suspend = f"suspended by {by}"

    def resume(self, event: Event, message: JobResumed) -> None:
        """Ask that a run that was suspended go on."""
        self._asked_to_suspend(
            event, self._table.known_alone(message.job_id)
        ).requests.suspend = None

    def _newer(self, event: Event, job_id: str, stamp: str) -> list[JobRecord]:
        """Return the job of an event, and of an array the tasks that are jobs of their own: those
        of which nothing newer was asked. Raises AlreadyAppliedError where that is not the job."""
        job = self._table.known(job_id)
        require_newer(event, getattr(job.requests, stamp))
        stamped = stamp_of(event)
        newer = [one for one in self._with_tasks(job) if stamped > getattr(one.requests, stamp)]
        for each in newer:
            setattr(each.requests, stamp, stamped)
            self._revisit(each)
        return newer

    def _asked_to_suspend(self, event: Event, job: JobRecord) -> JobRecord:
        """Return the job, unless something newer was asked of its run."""
        require_newer(event, job.requests.suspend_asked)
        job.requests.suspend_asked = stamp_of(event)
        self._revisit(job)
        return job

    def _revisit(self, job: JobRecord) -> None:
        self._asked_of.add(job.job.job_id)
        self._table.revisit(job)
