"""The jobs whose runs may be advised on: who owns them, and whether they run."""

from heapq import heapify, heappop, heappush
from typing import NamedTuple

from coplace.v1.jobs_pb2 import JobFinished, JobRequeued, JobStarted, JobSubmitted
from google.protobuf.message import Message

from shared.domain.job import JobFact, JobState, next_state
from shared.messaging.table import Table


class JobRun(NamedTuple):
    """The newest attempt of a job. `advised_ghz` is 0 until it was advised; `is_counted` says that
    its mismatch was."""

    attempt: int
    user: str
    state: str
    cluster: str = ""
    ended_us: int = 0
    advised_ghz: float = 0.0
    is_counted: bool = False


class Runs:
    """Folds job events; an ended job is remembered for `remember_us`, since what was measured of it
    may arrive behind its end."""

    def __init__(self, table: Table[JobRun], remember_us: int) -> None:
        self._jobs = table
        self._remember_us = remember_us
        self._ends = [(run.ended_us, job_id) for job_id, run in table.items() if run.ended_us]
        heapify(self._ends)

    def get(self, job_id: str) -> JobRun | None:
        """The newest attempt; None for a job that nobody submitted, or that ended long ago."""
        return self._jobs.get(job_id)

    def put(self, job_id: str, run: JobRun) -> None:
        """What is known of a job from now on."""
        self._jobs.put(job_id, run)

    def fold(self, message: Message) -> None:
        """Take a job's event in; copies and late ones change nothing."""
        match message:
            case JobSubmitted():
                self._begin(message.job_id, message.attempt, message.user)
            case JobStarted():
                self._advance(message, JobFact.STARTED, cluster=message.cluster)
            case JobFinished():
                self._begin(message.job_id, message.attempt, message.user)
                self._advance(message, JobFact.FINISHED, ended_us=message.ended_at_us)
            case JobRequeued():
                before = self._jobs.get(message.job_id)
                if before is not None:
                    self._begin(message.job_id, message.attempt, before.user)

    def forget(self, now_us: int) -> None:
        """Drop the jobs that ended long enough ago."""
        while self._ends and self._ends[0][0] + self._remember_us <= now_us:
            ended_us, job_id = heappop(self._ends)
            run = self._jobs.get(job_id)
            if run is not None and run.ended_us == ended_us:
                self._jobs.drop(job_id)

    def _begin(self, job_id: str, attempt: int, user: str) -> None:
        before = self._jobs.get(job_id)
        if before is None or before.attempt < attempt:
            self._jobs.put(job_id, JobRun(attempt, user, JobState.SUBMITTED))

    def _advance(
        self,
        message: JobStarted | JobFinished,
        fact: JobFact,
        cluster: str = "",
        ended_us: int = 0,
    ) -> None:
        run = self._jobs.get(message.job_id)
        if run is None or run.attempt != message.attempt:
            return
        state = next_state(JobState(run.state), fact)
        if state == run.state:
            return
        if ended_us:
            heappush(self._ends, (ended_us, message.job_id))
        known = run._replace(state=state, cluster=cluster or run.cluster, ended_us=ended_us)
        self._jobs.put(message.job_id, known)
