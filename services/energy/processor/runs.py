"""The jobs whose runs may be advised on: who owns them, and whether they run."""

from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from coplace.v1.jobs_pb2 import (
    JobFinished,
    JobRequeued,
    JobSeized,
    JobStarted,
    JobSubmitted,
)
from google.protobuf.message import Message

from shared.arrays.known_arrays import KnownArrays
from shared.catalogue.schemas import names_of
from shared.domain.job import JobFact, JobState, next_state
from shared.streams.stages.stage import EarlyError
from shared.streams.state.state import Table

CONSUMES: Final = names_of(JobSubmitted, JobStarted, JobFinished, JobRequeued, JobSeized)


class JobRun(NamedTuple):
    """The newest attempt of a job. `ended_us` is the end of the round that brought its end, else 0;
    `advised_ghz` is 0 until it was advised; `is_counted` says that its mismatch was."""

    attempt: int
    user: str
    state: JobState
    cluster: str = ""
    ended_us: int = 0
    advised_ghz: float = 0.0
    is_counted: bool = False


class Runs:
    """Folds job events; an ended job is remembered for `remember_us` after its end arrived, since
    what was measured of it may arrive behind that."""

    def __init__(self, table: Table[JobRun], arrays: KnownArrays, remember_us: int) -> None:
        self._jobs, self._arrays = table, arrays
        self._remember_us = remember_us
        self._ends = [(run.ended_us, job_id) for job_id, run in table.items() if run.ended_us]
        heapify(self._ends)
        over = JobState.FINISHED
        self._ending = {job for job, run in table.items() if run.state == over and not run.ended_us}

    def get(self, job_id: str) -> JobRun | None:
        """Return the newest attempt; None for a job that nobody submitted, or that ended long
        ago."""
        return self._jobs.get(job_id)

    def put(self, job_id: str, run: JobRun) -> None:
        """Remember what is known of a job from now on."""
        self._jobs.put(job_id, run)

    def fold(self, message: Message) -> None:
        """Take a job's event in; copies and late ones change nothing."""
        match message:
            case JobSubmitted():
                self._arrays.submit(message)
                self._begin(message.job_id, message.attempt, message.user)
            case JobStarted() | JobFinished() | JobRequeued() | JobSeized():
                self._begin_task(message.job_id)
                self._go_on(message)

    def _go_on(self, message: JobStarted | JobFinished | JobRequeued | JobSeized) -> None:
        match message:
            case JobStarted():
                self._advance(message, JobFact.STARTED, cluster=message.cluster)
            case JobFinished():
                self._begin(message.job_id, message.attempt, message.user)
                self._advance(message, JobFact.FINISHED)
                self._end_array(message.job_id)
            case JobRequeued():
                self._follow(message.job_id, message.attempt)
            case JobSeized():
                self._follow(message.job_id, message.attempt + 1)

    def forget(self, now_us: int) -> None:
        """Drop the jobs whose end came long enough ago; what ended since the last call did now."""
        for job_id in sorted(self._ending):
            ending = self._jobs.get(job_id)
            if ending is not None and ending.state == JobState.FINISHED:
                self._jobs.put(job_id, ending._replace(ended_us=now_us))
                heappush(self._ends, (now_us, job_id))
        self._ending.clear()
        while self._ends and self._ends[0][0] + self._remember_us <= now_us:
            ended_us, job_id = heappop(self._ends)
            run = self._jobs.get(job_id)
            if run is not None and run.ended_us == ended_us:
                self._jobs.drop(job_id)
                self._arrays.forget(job_id)

    def _begin_task(self, job_id: str) -> None:
        """Begin the first attempt of a task of an array: nobody submits it by itself."""
        if self._jobs.get(job_id) is None and (array_id := self._arrays.array_of(job_id)):
            array = self._jobs.get(array_id)
            if array is not None:
                self._begin(job_id, 1, array.user)

    def _end_array(self, job_id: str) -> None:
        """End an array with the last of its tasks."""
        array_id = self._arrays.end(job_id)
        array = self._jobs.get(array_id) if array_id else None
        if array_id and array is not None and array.state is not JobState.FINISHED:
            self._jobs.put(array_id, array._replace(state=JobState.FINISHED))
            self._ending.add(array_id)

    def _begin(self, job_id: str, attempt: int, user: str) -> None:
        before = self._jobs.get(job_id)
        if before is None or before.attempt < attempt:
            self._jobs.put(job_id, JobRun(attempt, user, JobState.SUBMITTED))

    def _follow(self, job_id: str, attempt: int) -> None:
        before = self._jobs.get(job_id)
        if before is None:
            raise EarlyError("job_id", f"{job_id[:80]!r} was never submitted: submit it first")
        self._begin(job_id, attempt, before.user)

    def _advance(self, message: JobStarted | JobFinished, fact: JobFact, cluster: str = "") -> None:
        run = self._jobs.get(message.job_id)
        if run is None or run.attempt < message.attempt:
            problem = f"{message.job_id[:80]!r} was never submitted in this attempt"
            raise EarlyError("job_id", problem)
        state = next_state(run.state, fact)
        if state == run.state or run.attempt > message.attempt:
            return
        if state is JobState.FINISHED:
            self._ending.add(message.job_id)
        known = run._replace(state=state, cluster=cluster or run.cluster)
        self._jobs.put(message.job_id, known)
