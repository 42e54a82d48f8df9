"""The jobs that placement tracks: a fold over what happened to them and what was asked of them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from typing import Final

from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_COMPLETED,
    JobCancelled,
    JobFinished,
    JobHeld,
    JobReleased,
    JobRequeued,
    JobStarted,
    JobSubmitted,
)

from services.placement.holdings import Holdings
from services.placement.jobs import Placed, Tracked
from services.placement.model import Candidate, misfit
from shared.domain.cluster import Cluster
from shared.domain.errors import RejectedError
from shared.domain.job import Dependency, Job, JobFact, JobState, next_state
from shared.domain.node import NodeNames
from shared.messaging.domain_types import dependencies_of, job_of
from shared.messaging.event import Event
from shared.messaging.stage import AlreadyAppliedError
from shared.policies.backfill.easy import Start

_PREFIX: Final = "job/"
_DAY_S: Final = 86_400.0
# Characters of somebody's reason that are kept: each decision on the job repeats it.
_MOST_TEXT: Final = 256


class Ledger:
    """Folds job events by the transition table.

    Ended jobs are remembered for a while, so that copies of their events are recognised. Folds
    raise RejectedError for what cannot be used and AlreadyAppliedError for copies and late facts.
    """

    def __init__(self, remember_days: float) -> None:
        self.by_arrival: dict[int, str] = {}
        self.holdings = Holdings()
        self._remember_s = remember_days * _DAY_S
        self._jobs: dict[str, Tracked] = {}
        self._ended: list[tuple[float, str]] = []
        self._next_arrival = 0
        self._touched: set[str] = set()
        self._changed: set[str] = set()

    def restore(self, state: Mapping[str, bytes], clusters: Iterable[Cluster]) -> None:
        """Track what `changes` returned in earlier lives."""
        for cluster in clusters:
            self.holdings.declare(cluster)
        for key, value in state.items():
            if key.startswith(_PREFIX):
                self._adopt(Tracked.from_bytes(value))

    def changes(self) -> dict[str, bytes | None]:
        """Jobs that changed since the last call; None for those that are forgotten."""
        changed, self._changed = self._changed, set()
        found = ((job_id, self._jobs.get(job_id)) for job_id in sorted(changed))
        return {f"{_PREFIX}{job_id}": job.to_bytes() if job else None for job_id, job in found}

    def take_touched(self) -> set[str]:
        """Ids of the jobs that something happened to since the last call; after a restart all."""
        touched, self._touched = self._touched, set()
        return touched

    def get(self, job_id: str) -> Tracked | None:
        """A job that is tracked, in its newest attempt."""
        return self._jobs.get(job_id)

    def void_starts(self) -> list[Tracked]:
        """Jobs of which a start must not take place, since they run elsewhere, by arrival."""
        return [job for job in self.found(self._touched) if job.void]

    def found(self, job_ids: Iterable[str]) -> list[Tracked]:
        """Those of these jobs that are tracked, by arrival."""
        jobs = (self._jobs[job_id] for job_id in job_ids if job_id in self._jobs)
        return sorted(jobs, key=lambda job: job.arrival)

    def of_arrival(self, arrival: int) -> Tracked:
        """The job that has this arrival number."""
        return self._jobs[self.by_arrival[arrival]]

    def apps(self) -> set[str]:
        """Applications of the jobs that have not ended."""
        return {job.job.app_id for job in self._jobs.values() if not job.ended}

    def save(self, job: Tracked) -> None:
        """The job was changed from outside."""
        self._changed.add(job.job.job_id)

    def weigh(self, job: Tracked, candidates: tuple[Candidate, ...]) -> None:
        """Keep what a job's decisions weigh."""
        job.candidates = candidates
        self.save(job)

    def submit(self, event: Event, message: JobSubmitted, clusters: Mapping[str, Cluster]) -> None:
        """A job, or a new attempt of one, arrived."""
        job, awaits = job_of(message), dependencies_of(message)
        known = self._jobs.get(job.job_id)
        if known is not None and job.attempt <= known.job.attempt:
            raise AlreadyAppliedError(event.id)
        _require_room(job, clusters)
        self._track(job, event.traceparent, awaits)

    def requeue(self, event: Event, message: JobRequeued) -> None:
        """The resource manager put a job back: its new attempt queues up at the end."""
        known = self._known(message.job_id)
        if message.attempt <= known.job.attempt:
            raise AlreadyAppliedError(event.id)
        self._track(replace(known.job, attempt=message.attempt), known.traceparent, known.awaits)

    def start(self, event: Event, message: JobStarted, names: Mapping[str, NodeNames]) -> None:
        """The resource manager says where an attempt runs, and since when: it is right, whatever
        was decided. Of two that run the same attempt the first is."""
        job = self._newest(event, message.job_id, message.attempt)
        if message.cluster not in names:
            raise RejectedError("cluster", f"{message.cluster[:80]!r} is not declared")
        state, placed = next_state(job.state, JobFact.STARTED), job.placed
        elsewhere = placed is not None and placed.cluster != message.cluster
        if state is job.state and not (elsewhere and job.state is JobState.RUNNING):
            raise AlreadyAppliedError(event.id)
        if state is job.state:
            job.void = message.cluster
        else:
            started = _started(job, message, names[message.cluster])
            job.void = placed.cluster if placed is not None and elsewhere else ""
            job.state, job.announced = state, 0
            self.holdings.release(job)
            self.holdings.hold(job, started)
        self._touch(job)

    def finish(self, event: Event, message: JobFinished) -> None:
        """An attempt ended, whatever we knew of its start: its nodes are free."""
        job = self._newest(event, message.job_id, message.attempt)
        state = next_state(job.state, JobFact.FINISHED)
        if state is job.state:
            raise AlreadyAppliedError(event.id)
        self.holdings.release(job)
        job.completed = message.outcome == JOB_OUTCOME_COMPLETED
        self._end(job, state, event.time_s)

    def cancel(self, event: Event, message: JobCancelled) -> None:
        """Somebody asked for the job's end: what waits ends at once, what runs by its finish.

        A start that was decided and not confirmed stays reserved until its end is announced.
        """
        job = self._asked(event, message.job_id)
        job.cancelled = message.reason[:_MOST_TEXT]
        state = next_state(job.state, JobFact.CANCELLED)
        if state is not job.state:
            self._end(job, state, event.time_s)

    def hold(self, event: Event, message: JobHeld) -> None:
        """Somebody asked that the job not start; what runs is held when it is put back."""
        self._asked(event, message.job_id).held = message.reason[:_MOST_TEXT]

    def release(self, event: Event, message: JobReleased) -> None:
        """The job may start, also when it was held since nobody confirmed its starts."""
        job = self._asked(event, message.job_id)
        job.held, job.missed_starts, job.isolated = None, 0, False

    def isolate(self, job: Tracked, reason: str) -> None:
        """Hold a job that the end of a round fails over."""
        job.held, job.isolated = reason[:_MOST_TEXT], True
        self._touch(job)

    def waiting(self) -> list[Tracked]:
        """Jobs that may be started, by arrival."""
        return [job for job in self.found(self._jobs) if job.waits and job.held is None]

    def place(self, job: Tracked, start: Start, now_s: float) -> Placed:
        """Give a job its nodes."""
        limit_s = start.entry.limit_s
        nodes, node_set = self.holdings.room(start.cluster, start.entry.nodes, start.host)
        node_set = job.arrival if node_set is None else node_set
        placed = Placed(start.cluster, nodes, node_set, limit_s, now_s + limit_s)
        self.holdings.hold(job, placed)
        self.save(job)
        return placed

    def withdraw(self, job: Tracked) -> None:
        """Take back what was decided: a job that did not end waits again at its old place."""
        self.holdings.release(job)
        self._touch(job)

    def forget(self, now_s: float) -> None:
        """Drop jobs that ended too long ago."""
        while self._ended and self._ended[0][0] < now_s - self._remember_s:
            ended_s, job_id = heappop(self._ended)
            job = self._jobs.get(job_id)
            if job is not None and job.ended_s == ended_s and job.placed is None:
                del self._jobs[job_id], self.by_arrival[job.arrival]
                self._touch(job)

    def _adopt(self, job: Tracked) -> None:
        job_id, placed = job.job.job_id, job.placed
        self._jobs[job_id] = job
        self.by_arrival[job.arrival] = job_id
        self._next_arrival = max(self._next_arrival, job.arrival + 1)
        if placed is not None:
            self._next_arrival = max(self._next_arrival, placed.node_set + 1)
            self.holdings.hold(job, placed)
        if job.ended_s is not None:
            heappush(self._ended, (job.ended_s, job_id))
        self._touched.add(job_id)

    def _track(self, job: Job, traceparent: str, awaits: tuple[Dependency, ...]) -> None:
        """Put a new attempt in the place of the one before; who held the job holds it still."""
        tracked = Tracked(job, self._next_arrival, traceparent, awaits=awaits)
        before = self._jobs.get(job.job_id)
        if before is not None:
            self.holdings.release(before)
            del self.by_arrival[before.arrival]
            tracked.held, tracked.asked = before.held, before.asked
        self._jobs[job.job_id] = tracked
        self.by_arrival[tracked.arrival] = job.job_id
        self._next_arrival += 1
        self._touch(tracked)

    def _end(self, job: Tracked, state: JobState, ended_s: float) -> None:
        job.state, job.ended_s = state, ended_s
        heappush(self._ended, (ended_s, job.job.job_id))
        self._touch(job)

    def _touch(self, job: Tracked) -> None:
        self._touched.add(job.job.job_id)
        self._changed.add(job.job.job_id)

    def _known(self, job_id: str) -> Tracked:
        if job_id not in self._jobs:
            raise RejectedError("job_id", f"{job_id[:80]!r} was never submitted: submit it first")
        return self._jobs[job_id]

    def _newest(self, event: Event, job_id: str, attempt: int) -> Tracked:
        """The job if this is its newest attempt: what happened to others is of no consequence."""
        job = self._known(job_id)
        if attempt > job.job.attempt:
            problem = f"{attempt} is not known, the newest is {job.job.attempt}: requeue first"
            raise RejectedError("attempt", problem)
        if attempt < job.job.attempt:
            raise AlreadyAppliedError(event.id)
        return job

    def _asked(self, event: Event, job_id: str) -> Tracked:
        """The job of which something is asked, unless something newer was or it has ended."""
        job, asked = self._known(job_id), (event.time_us, event.id)
        if job.ended or asked <= job.asked:
            raise AlreadyAppliedError(event.id)
        job.asked = asked
        self._touch(job)
        return job


def _require_room(job: Job, clusters: Mapping[str, Cluster]) -> None:
    if job.reference_cluster not in clusters:
        problem = f"{job.reference_cluster!r} is not declared: known are {[*clusters]}"
        raise RejectedError("reference_cluster", problem)
    problems = {misfit(job, cluster) for cluster in clusters.values()}
    if "" not in problems:
        raise RejectedError(
            "nodes", f"the job fits on no cluster: {'; '.join(sorted(problems)[-3:])}"
        )


def _started(job: Tracked, message: JobStarted, names: NodeNames) -> Placed:
    """Where a start says that the job runs; as decided when it names no nodes."""
    placed, since_s = job.placed, message.started_at_us / 1e6
    limit_s = placed.limit_s if placed else job.job.walltime_s
    here = placed if placed and placed.cluster == message.cluster else None
    if not message.nodes and here is None:
        raise RejectedError("nodes", "must be named: placement did not choose them")
    nodes = tuple(sorted(names.index(name) for name in message.nodes))
    if here is not None and nodes in ((), here.nodes):
        return replace(here, ends_s=since_s + limit_s)
    return Placed(message.cluster, nodes, job.arrival, limit_s, since_s + limit_s)
